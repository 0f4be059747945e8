"""What the recording ``capstone_hand`` shows: what each change was predicted to save, what it saved, and its price."""

from collections.abc import Sequence
from typing import Any

from compile_lab.doors import door
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, dotted
from compile_lab.page.tables import Table
from compile_lab.page.units import signed, with_quartiles
from compile_lab.recordings import Recording

from ...shared import capstone_limits, capstone_view
from . import capstone_losses_view

TUNED, BACKWARD, SHORT, HEAD = "tuned", "gelu backward", "fp8, short sums", "fp8 + head"
ALIKE, SHORTER, LONGER = "stays as it is", "becomes shorter", "becomes longer"


def changes(recording: Recording) -> dict[str, Any]:
    """Each change that was timed; not the rungs of the ladder that they begin from."""
    return {name: row for name, row in capstone_view.rungs(recording.result).items() if row["beside"] != name}


def change_ms(recording: Recording, name: str) -> float:
    """How much longer the step is than the one that it is compared with; below 0 it is shorter."""
    rows = capstone_view.rungs(recording.result)
    return rows[name]["median_ms"] - rows[rows[name]["beside"]]["median_ms"]


def outcome(recording: Recording, name: str) -> str:
    """What became of the step."""
    rows = capstone_view.rungs(recording.result)
    if not capstone_view.distinct(rows[name], rows[rows[name]["beside"]]):
        return ALIKE
    return SHORTER if change_ms(recording, name) < 0 else LONGER


def ratio(recording: Recording, name: str) -> float:
    """How many times as fast as the compiled peer."""
    peer = capstone_view.peers(recording.result)["peer, compiled"]
    return peer["median_ms"] / capstone_view.rungs(recording.result)[name]["median_ms"]


@door
def picture(recording: Recording) -> Drawing:
    """A row for each change: how it changed the step, as predicted and as measured; all else in the table."""
    timed, rows, cells = capstone_view.rungs(recording.result), [], []
    for name, row in changes(recording).items():
        before = timed[row["beside"]]
        low, high = (row[f"{end}_ms"] - before["median_ms"] for end in ("low", "high"))
        values = {"predicted": row["predicted_ms"], "measured": change_ms(recording, name)}
        rows.append(Row(name, values, spreads={"measured": (low, high)}))
        cells.append((
            name, row["does"], row["beside"], with_quartiles(row["median_ms"], row["low_ms"], row["high_ms"]),
            outcome(recording, name), f"{ratio(recording, name):.2f}×", f"{100 * row['gradient_error']:.2f} %",
        ))  # fmt: skip
    first, *_, last = sorted(changes(recording), key=lambda name: change_ms(recording, name))
    ends = (f"{signed(change_ms(recording, name))} ms ({name})" for name in (first, last))
    columns = ["", "what is new", "compared with", "ms a step", "the step", "peer compiled = 1", "gradients' error"]
    return dotted(
        rows,
        Axis("change of the step", "ms"),
        title=f"The changes: from {' to '.join(ends)}.",
        caption="Each against the step that it starts from. Lines: the middle half of the steps",
        provenance=recording.provenance,
        table=Table(columns, cells, align="lllrlrr"),
    )


@door
def text(recording: Recording, losses: Sequence[Any], again: Recording) -> list[str]:
    """A paragraph each on the changes, on bf16 and what is left there, on fp8 and what its rungs cost in loss, and on
    another run, whose steps are called the same. losses: the results of the long runs."""
    rows, by_outcome = capstone_view.rungs(recording.result), dict[str, list[str]]()
    for name in changes(recording):
        told = f"{name} ({signed(change_ms(recording, name))} ms)"
        by_outcome.setdefault(outcome(recording, name), []).append(told)
    told = "; ".join(f"the step {what} with {', '.join(names)}" for what, names in by_outcome.items())
    (peer,) = capstone_view.peers(recording.result).values()
    quarter = peer["median_ms"] / 1.25
    (slow,) = (kernel for kernel in rows[BACKWARD]["kernels"] if "epilogue" in kernel["name"])
    least = capstone_limits.limits(recording.result, rows[TUNED]["vocabulary"])
    spent = capstone_view.families(rows[TUNED])
    parts = ", ".join(f"{name} {spent[name]:.1f} ({ms:.1f})" for name, ms in least.items() if ms > 1)
    far = max(least, key=lambda name: spent[name] - least[name])
    return [
        f"{told[0].upper()}{told[1:]}. An epilogue spares a pass over memory, but the matmul that has it takes longer "
        "by about as much. And cuBLASLt leaves the sum of the bias's gradient to a kernel of its own, which takes "
        f"{slow['us'] / slow['count']:,.0f} µs a layer.",
        f"In bf16 the tuned step is {ratio(recording, TUNED):.3f} times as fast as the compiled peer, by hand without "
        f"tuning {ratio(recording, 'hand'):.3f} times. 1.25 times as fast as the peer would be {quarter:.1f} ms; the "
        f"tuned step takes {rows[TUNED]['median_ms']:.1f}. The milliseconds of its kernels, and in brackets their "
        f"limits at the sustained rates: {parts}. What is left is {far}.",
        f"In fp8, tuned, the step is {ratio(recording, 'fp8, tuned'):.3f} times as fast as the compiled peer, with the "
        f"arithmetic of “all fp8”; with short sums in inputs' gradients, too, {ratio(recording, SHORT):.3f} times, and "
        f"with the head's two gradients in fp8 as well {ratio(recording, HEAD):.3f} times. Over nine seeds "
        + " ".join(_price(losses, *pair) for pair in (("hand", "bf16", SHORT), ("hand", "bf16", HEAD)))
        + f" And {_price(losses, SHORT, SHORT, HEAD)}",
        f"On another day, in the run with all of the peer's ways, tuned was {ratio(again, TUNED):.3f} times as fast as "
        f"the compiled peer, and {SHORT} {ratio(again, SHORT):.3f} times. The ratios of tuned in these two runs are "
        f"{100 * abs(ratio(recording, TUNED) / ratio(again, TUNED) - 1):.0f} % apart.",
    ]


def _price(losses: Sequence[Any], judge: str, called: str, other: str) -> str:
    """How far a rung's losses end above another's, and what follows."""
    higher, sure = capstone_losses_view.difference(losses, judge, other)
    apart = abs(higher) >= 2 * sure
    verdict = "**told apart**, so those milliseconds have a price in loss" if apart else "**not told apart**"
    return (
        f"{other} ends {signed(1e3 * higher)} thousandths of a nat from {called}, with a standard error of "
        f"{1e3 * sure:.1f}: {verdict}."
    )
