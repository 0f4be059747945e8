"""The card that judges: is what is computed, once it is compiled, right? A pure function of what was captured."""

import math

from ..inductor.generated import GeneratedCode
from ..judge.judging import WRONG, Verdict
from ..known_faults import KNOWN_FAULTS
from .advice import cure_of
from .captured import Captured, PartFailed
from .cards import CardFigure, CardPart, CardTable, CardText, ReportCard
from .judged import JudgedStep, unwritten

TITLE = "Is the compiled step right?"
MOST_NAMED, MOST_ROWS = 4, 40
BY_ITSELF = (
    "`compile-lab judge FILE:FUNCTION` judges it alone; `--judge`, or `report(…, judge=True)`, does so in a report "
    "of a smaller model however long that takes"
)
WHOSE = (
    "`compile-lab judge FILE:FUNCTION` judges it alone, and `compile_lab.judge.stage_at_fault(model, batch)` says "
    "which stage of the compiler is at fault"
)
WHAT = (
    "The judge compares the outputs, all gradients, and inputs and buffers afterwards, of two calls with this batch, "
    "compiled for this machine's CPU. A unit is what moving each operand by an ulp does to a number. Random numbers "
    "are drawn by aten, as eager draws them; kernels that would draw their own are not compared. Neither is the "
    "optimizer's step, nor what the chip's kernels compute."
)


def judged_card(found: Captured) -> ReportCard:
    """What is right, what is wrong, and what could not be judged."""
    code = found.parts.get("code")
    lost = unwritten(found.given, code)
    try:
        step: JudgedStep | None = (judged := found["judged"])
        said, severity, todo = _conclusion(judged)
    except PartFailed as error:
        if not lost:
            raise
        step, said, severity, todo = None, f"What it computes could not be checked: {error.why}.", "look", error.todo
    todos = [todo] if todo else []
    chip = found.options.chip
    if lost:
        fault, cure = _cure_of_unwritten(found)
        memory = f"its code returns memory that nothing writes, {_first_names(lost)}{fault}"
        said = f"WRONG for a virtual {chip}: {memory}. {said}"
        severity, todos = "bad", [cure, *todos]
    elif lost is None or not isinstance(code, GeneratedCode) or code.trouble:
        said = f"{said} Of the code for a virtual {chip} not all is there to be read for results that nothing writes."
        severity = "look" if severity == "good" else severity
    else:
        said = f"{said} The code for a virtual {chip} writes all that it returns."
    parts: list[CardPart] = [CardText(f"**What to do:** {each}.") for each in todos]
    figures: tuple[CardFigure, ...] = ()
    if step and step.refused:
        parts.append(CardTable(("not compared", "since"), tuple(step.refused.items())))
    if step and step.verdict and step.verdict.units:
        parts += [_worst(step.verdict), CardText(WHAT)]
        figures = (CardFigure("results that are wrong", len(step.verdict.wrong) + len(lost or ())),)
    return ReportCard("judged", TITLE, said, severity, tuple(parts), figures)


def _conclusion(step: JudgedStep) -> tuple[str, str, str]:
    """What the judge says in a sentence, how bad that is, and what to do."""
    verdict = step.verdict
    if verdict is None:
        return f"Not checked: {step.skipped}.", "look", BY_ITSELF if step.costly else ""
    if verdict.raised and step.ours:
        said = f"The judge's own call raises {verdict.raised}, and compiled without it the step runs."
        return said, "failed", BY_ITSELF
    if verdict.raised:
        return f"Compiled, your step raises {verdict.raised}.", "bad", cure_of(verdict.raised)
    if verdict.wrong:
        names = _first_names(verdict.wrong)
        return f"WRONG in {names}: compiled for this machine's CPU, that is no rounding.", "bad", WHOSE
    if not verdict.units:
        return "Nothing of it could be compared.", "look", ""
    worst = max(verdict.units, key=verdict.units.__getitem__)
    off = f"at most {verdict.units[worst]:.1f} units of rounding off ({worst}); from {WRONG:.0f} on it would be wrong"
    where, count = "compiled for this machine's CPU", len(verdict.units)
    if step.refused:  # first, since the judged ones may be those that say little
        names = _first_names(tuple(step.refused))
        return f"Not compared: {names}, see why below. The other {count} results, {where}, are {off}.", "look", ""
    return f"Right: {count} results of two calls, {where}, are {off}.", "good", ""


def _cure_of_unwritten(found: Captured) -> tuple[str, str]:
    """The fault's number, if it is a known one, and the switch: that it helps is said where it was tried."""
    option = found.parts.get("cured")
    if isinstance(option, str):
        fault = next((each for each in KNOWN_FAULTS if each.option == option), None)
        if fault is None:
            return "", f"no switch that was tried fixes it; {WHOSE}"
        return f" (pytorch#{fault.number})", f"{fault.switch}: tried, the code writes all of its results then"
    switches = "; ".join(each.switch for each in KNOWN_FAULTS)
    return "", f"try {switches} (there was no time to try it here)"


def _first_names(names: tuple[str, ...]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _worst(verdict: Verdict) -> CardTable:
    """The results that are furthest off, first."""
    units = sorted(verdict.units.items(), key=lambda each: -each[1])
    rows = tuple((name, "not a number of that kind" if math.isinf(off) else f"{off:.3g}") for name, off in units)
    return CardTable(("result", "units of rounding off"), rows[:MOST_ROWS], folded="Result by result, the worst first")
