"""What the recording ``capstone_peers`` shows: the switches that people try first, and the step by hand."""

from collections.abc import Mapping
from typing import Any

from compile_lab.doors import door
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import dots
from compile_lab.page.tables import Table
from compile_lab.page.units import with_quartiles
from compile_lab.recordings import Recording

from ...shared import capstone_view

Row = Mapping[str, Any]
PEERS = DEFAULT, _, FLOAT8, *_ = tuple(
    f"peer, {way}" for way in ("compiled", "max-autotune", "float8", "float8 by rows", "Liger", "cuDNN")
)
"""The peer's steps that `text` speaks of."""


def timed(recording: Recording) -> dict[str, Row]:
    """Each step of the run, the slowest first."""
    rows = capstone_view.peers(recording.result) | capstone_view.rungs(recording.result)
    return dict(sorted(rows.items(), key=lambda each: -each[1]["median_ms"]))


def around(row: Row, without: Row) -> float:
    """How many milliseconds more a step spends outside its matmuls than another."""
    one, other = (capstone_view.families(each) for each in (row, without))
    return sum(one[name] - other[name] for name in ("GELU", "norms", "other"))


@door
def picture(recording: Recording) -> Drawing:
    """A row for each step, with its memory and its first call."""
    rows = timed(recording)
    columns = ["", "ms a step", "memory", "first call"]
    table = [
        (
            name, with_quartiles(row["median_ms"], row["low_ms"], row["high_ms"]),
            f"{row['peak_nbytes'] / 1e9:.1f} GB", f"{row['first_s']:.0f} s",
        )
        for name, row in rows.items()
    ]  # fmt: skip
    slow, *_, quick = rows
    ends = " and ".join(f"{name} {rows[name]['median_ms']:.1f} ms" for name in (quick, slow))
    caption = "All took turns in one run"
    return dots(
        list(rows),
        {"the step": [row["median_ms"] for row in rows.values()]},
        unit="ms",
        title=f"The same step between {ends}.",
        caption=caption,
        provenance=recording.provenance,
        table=Table(columns, table, caption, align="lrrr"),
    )


@door
def text(recording: Recording, elsewhere: Recording) -> list[str]:
    """A paragraph each on tuning, on float8, on Liger, on attention and what did not run, on the steps by the compiler
    and by hand, and on another machine's ratios."""
    rows, there = timed(recording), timed(elsewhere)
    default, tuned, float8, by_rows, liger, cudnn = (rows[name] for name in PEERS)
    hand, fp8 = rows["hand"], rows["all fp8"]
    before, after = (capstone_view.families(row)["matmuls"] for row in (default, float8))
    return [
        f"Tuning takes {tuned['first_s'] / 60:.1f} minutes before the first step instead of "
        f"{default['first_s'] / 60:.1f}. The step goes from {default['median_ms']:.1f} to "
        f"{tuned['median_ms']:.1f} ms, {_apart(default, tuned)}; by hand it takes {hand['median_ms']:.1f}.",
        f"In torchao's float8 the compiled step takes {float8['median_ms']:.1f} ms, more than in bf16. Its matmuls "
        f"fall from {before:.1f} to {after:.1f} ms, but the kernels that look for each operand's largest value and "
        f"cast it add {around(float8, default):.1f} ms to GELU, norms and the rest. By hand the casts add "
        f"{around(fp8, hand):.1f} ms, and the step takes {fp8['median_ms']:.1f}. All matrices of the blocks are 768 to "
        "3,072 wide; with wider ones, matmuls would take a larger share of the step and casts a smaller one. With a "
        f"scale for each row instead of one for each tensor, the step takes {by_rows['median_ms']:.1f} ms, and the "
        f"error of the gradients is {by_rows['gradient_error']:.3f} instead of {float8['gradient_error']:.3f}.",
        f"With Liger's layer norms and loss the step takes {liger['median_ms']:.1f} ms instead of "
        f"{default['median_ms']:.1f}, {_apart(default, liger)}, and {liger['peak_nbytes'] / 1e9:.1f} GB instead of "
        f"{default['peak_nbytes'] / 1e9:.1f}.",
        f"Asking for cuDNN's attention gives {cudnn['median_ms']:.1f} ms instead of {default['median_ms']:.1f}, "
        f"{_apart(default, cudnn)}: on this GPU torch takes it unasked. {_stopped(recording)}",
        f"By the compiler alone, *together* is {_faster(rows, 'together')} as fast as the compiled peer. By hand the "
        f"step is {_faster(rows, 'hand')} in bf16, and tuned "
        f"{_faster(rows, 'tuned')} ({_apart(hand, rows['tuned'])}); in fp8 {_faster(rows, 'all fp8')}, and with short "
        f"sums {_faster(rows, 'fp8, short sums')} ({_apart(fp8, rows['fp8, short sums'])}). On the "
        f"{elsewhere.provenance.device} the step by hand is {_faster(there, 'hand')} as fast as the compiled peer, in "
        f"fp8 {_faster(there, 'all fp8')}.",
    ]


def _faster(rows: Mapping[str, Row], name: str) -> str:
    return f"{rows[DEFAULT]['median_ms'] / rows[name]['median_ms']:.2f}×"


def _apart(one: Row, other: Row) -> str:
    return "told apart" if capstone_view.distinct(one, other) else "not told apart"


def _stopped(recording: Recording) -> str:
    """What was tried and did not run, with its error."""
    each = [f"{row['name'].removeprefix('peer, ')} ({row['stopped']})" for row in recording.result["stopped"]]
    return f"What did not run: {'; '.join(each)}." if each else ""
