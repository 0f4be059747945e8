"""Does an architecture that nobody here wrote get every card, how soon, and is its peak the allocator's?

python -m compile_lab.report.survey                 all fifty, each in a process of its own: about half an hour
python -m compile_lab.report.survey Llama "GPT-2"   some of them

The status is 1 if fewer keep what is promised: of fifty, every card for 45, none after 90 s, the peak to 0.1 % for 40.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from .._torch.dynamo import compiled_anew
from ..doors import door
from ..inductor.generated import GeneratedCode
from ..inductor.lowering import collecting
from ..judge.judging import in_a_line
from ..memory.compiled import compiled_lifetimes
from ..memory.measured import measure_step
from ..page.tables import Table
from ..recordings import here
from ..virtual_gpu.chips import chip
from ..virtual_gpu.client import started
from ..virtual_gpu.server import come_up
from .architectures import ARCHITECTURES, made
from .captured import ReportOptions
from .given import GivenModel, given
from .limits import LIMIT_S
from .model import build_report, state_kept

Row = dict[str, Any]
WITH_EVERY_CARD, WITH_THE_PEAK, OF = 45, 40, 50
LONGEST_S, NEAR = 90, 1e-3


@door
def row(name: str, whole: bool = False, limit_s: float = LIMIT_S) -> Row:
    """One of the fifty, reported on, with what a device of eight holds, and its peak measured.

    ``cards`` is each card's severity, ``failed`` the verdicts of those that could not be told, ``findings`` the names
    of what was found, ``seconds`` those of the whole report, ``parts`` of its parts. ``predicted_bytes`` and
    ``measured_bytes`` are the peak above what was there: of the code that Inductor wrote for this CPU, and of the
    allocator while it ran; ``between_calls_bytes`` leaves out what a library took and gave back inside a call, which no
    code of Inductor's tells. ``trouble`` says why they are None. With ``whole`` the report itself is in it, as
    ``report``. Each part may take ``limit_s`` seconds. KeyError for a name that is none of the fifty.

    A name that is none of the fifty is refused:

    >>> from compile_lab.report.survey import row
    >>> row("Llama 9")
    Traceback (most recent call last):
        ...
    KeyError: 'Llama 9'
    """
    one, options = ARCHITECTURES[name], ReportOptions(devices=8, limit_s=limit_s)
    with started(options.chip):
        model, batch = made(name)
        begun = time.perf_counter()
        subject = given(model, batch, name=name)
    found = build_report(subject, options)
    seconds = time.perf_counter() - begun
    return {
        "name": name,
        "library": one.library,
        "kind": one.kind,
        "parameters": sum(each.numel() for each in model.parameters()),
        "rule": subject.rule,
        "seconds": round(seconds, 1),
        "parts": dict(found.seconds),
        "cards": {card.name: card.severity for card in found.cards},
        "failed": {card.name: card.verdict for card in found.cards if card.severity == "failed"},
        "findings": [each.name for each in found.findings],
        "unasked": list(found.unasked),
        **_peaks(subject),
        **({"report": found.as_data()} if whole else {}),
    }


def _peaks(subject: GivenModel) -> Row:
    """The peak of one step on this CPU: predicted from the code that Inductor wrote, and the allocator's own."""
    loss = subject.loss
    try:
        with compiled_anew(), state_kept(subject.model), collecting() as graphs:
            compiled = torch.compile(loss)
            measured = measure_step(lambda: compiled(*subject.args, **subject.kwargs), subject.model.zero_grad)
            measured.require_compiled()
        code = GeneratedCode(tuple(graphs), None, here("compile_lab.report.survey", "cpu"))
        predicted = compiled_lifetimes(code)
    except Exception as error:
        nothing = dict.fromkeys(("predicted_bytes", "measured_bytes", "between_calls_bytes"))
        return {**nothing, "trouble": in_a_line(error)}
    return {
        "predicted_bytes": predicted.peak_nbytes,
        "measured_bytes": measured.peak_nbytes,
        "between_calls_bytes": measured.between_calls_nbytes,
        "trouble": "",
    }


def alone(name: str, whole: bool = False) -> Row:
    """The same in a process of its own, which no earlier model has warmed; one that fails whole has a ``trouble``."""
    there, ahead = multiprocessing.get_context("spawn"), (chip(ReportOptions().chip),)
    with ProcessPoolExecutor(1, mp_context=there, initializer=come_up, initargs=ahead) as pool:  # as the command does
        try:
            return pool.submit(row, name, whole).result()
        except Exception as error:  # the survey is of all of them, so it goes on
            said = in_a_line(error)
            return {"name": name, "seconds": None, "cards": {}, "failed": {"all": said}, "trouble": said}


def has_the_peak(found: Mapping[str, Any]) -> bool:
    """Is the predicted peak the allocator's, but for what a library takes and gives back within a call?"""
    measured = found.get("between_calls_bytes")
    return bool(measured) and abs(found["predicted_bytes"] / measured - 1) <= NEAR


def broken_promises(rows: Sequence[Row]) -> list[str]:
    """What is promised of fifty, in proportion to how many these are; each sentence one that is not kept."""
    whole, peaks = sum(not each["failed"] for each in rows), sum(map(has_the_peak, rows))
    slow = [each["name"] for each in rows if each["seconds"] and each["seconds"] > LONGEST_S]
    said = []
    if whole * OF < WITH_EVERY_CARD * len(rows):
        said.append(f"{whole} of {len(rows)} have every card; {WITH_EVERY_CARD} of {OF} are promised")
    if peaks * OF < WITH_THE_PEAK * len(rows):
        said.append(f"the peak of {peaks} of {len(rows)} is the allocator's; {WITH_THE_PEAK} of {OF} are promised")
    if slow:
        said.append(f"more than {LONGEST_S} s: {', '.join(slow)}")
    return said


def table(rows: Iterable[Row]) -> Table:
    """A row an architecture: how long, which cards failed, the peak predicted and measured."""
    columns = ["architecture", "s", "cards that failed", "peak, predicted", "between calls", "measured", "trouble"]
    cells = [
        [
            each["name"],
            each["seconds"],
            "; ".join(f"{card}: {why}" for card, why in each["failed"].items()) or None,
            each.get("predicted_bytes"),
            each.get("between_calls_bytes"),
            each.get("measured_bytes"),
            each["trouble"] or None,
        ]
        for each in rows
    ]
    return Table(columns, cells)


def main(arguments: Sequence[str] | None = None) -> int:
    """Survey those that are named, or all; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m compile_lab.report.survey", description="Report on fifty models.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="some of the fifty; all without")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows as data, too")
    asked = parser.parse_args(arguments)
    if unknown := [name for name in asked.names if name not in ARCHITECTURES]:
        parser.error(f"{unknown[0]!r} is none of the fifty; they are {', '.join(ARCHITECTURES)}")
    rows = [alone(name) for name in tqdm(asked.names or list(ARCHITECTURES), desc="survey", disable=None)]
    print(table(rows))
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for each in broken_promises(rows):
        print(each, file=sys.stderr)
    return bool(broken_promises(rows))


if __name__ == "__main__":
    sys.exit(main())
