"""What the recording ``capstone_peers`` shows: the switches that people try first, and the step by hand."""

from collections.abc import Mapping
from typing import Any

from compile_lab.doors import door
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, dotted
from compile_lab.recordings import Recording

from ...shared import capstone_view

Step = Mapping[str, Any]
PEERS = DEFAULT, _, FLOAT8, _, _, _ = tuple(
    f"peer, {way}" for way in ("compiled", "max-autotune", "float8", "float8 by rows", "Liger", "cuDNN")
)
"""The peer's steps that `text` speaks of."""


def timed(recording: Recording) -> dict[str, Step]:
    """Each step of the run, the slowest first."""
    rows = capstone_view.peers(recording.result) | capstone_view.rungs(recording.result)
    return dict(sorted(rows.items(), key=lambda each: -each[1]["median_ms"]))


def around(row: Step, without: Step) -> float:
    """How many milliseconds more a step spends outside its matmuls than another."""
    one, other = (capstone_view.families(each) for each in (row, without))
    return sum(one[name] - other[name] for name in ("GELU", "norms", "other"))


@door
def picture(recording: Recording) -> Drawing:
    """A row for each step, in its maker's colour; speed, memory and the gradients' error in the table."""
    rows, result = timed(recording), recording.result
    slow, *_, quick = rows
    ends = " and ".join(f"{name} {rows[name]['median_ms']:.1f} ms" for name in (quick, slow))
    return dotted(
        [
            Row(name, {who: row["median_ms"]}, spreads={who: (row["low_ms"], row["high_ms"])})
            for name, row in rows.items()
            for who in (capstone_view.WORDS[row["by"]],)
        ],
        Axis("a step", "ms"),
        title=f"The same step between {ends}.",
        caption="All took turns in one run. Lines: the middle half of the steps",
        colours={capstone_view.WORDS[by]: colour for by, colour in capstone_view.COLOURS.items()},
        provenance=recording.provenance,
        table=capstone_view.table(result, rows),
    )


@door
def text(recording: Recording, elsewhere: Recording) -> list[str]:
    """A paragraph each on tuning, on float8, on Liger, on attention and what did not run, on the steps by the compiler
    and by hand, and on another machine's ratios."""
    rows, there = timed(recording), timed(elsewhere)
    default, tuned, float8, by_rows, liger, cudnn = (rows[name] for name in PEERS)
    hand, fp8 = rows["hand"], rows["all fp8"]
    copies = any("CatArray" in kernel["name"] for kernel in there["hand"]["kernels"])
    copied = ", where attention's gradients were copied," if copies else ""
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
        f"error of the gradients is {100 * by_rows['gradient_error']:.1f} % instead of "
        f"{100 * float8['gradient_error']:.1f} %.",
        f"With Liger's layer norms and loss the step takes {liger['median_ms']:.1f} ms instead of "
        f"{default['median_ms']:.1f}, {_apart(default, liger)}, and {liger['peak_nbytes'] / 1e9:.1f} GB instead of "
        f"{default['peak_nbytes'] / 1e9:.1f}.",
        f"Asking for cuDNN's attention gives {cudnn['median_ms']:.1f} ms instead of {default['median_ms']:.1f}, "
        f"{_apart(default, cudnn)}: on this GPU torch takes it unasked. The steps by hand reach "
        f"cuDNN's attention by {recording.result['attention']}. {_stopped(recording)}",
        f"By the compiler alone, *together* is {_faster(rows, 'together')} as fast as the compiled peer. By hand the "
        f"step is {_faster(rows, 'hand')} in bf16, and tuned "
        f"{_faster(rows, 'tuned')} ({_apart(hand, rows['tuned'])}); in fp8 {_faster(rows, 'all fp8')}, with short "
        f"sums {_faster(rows, 'fp8, short sums')} ({_apart(fp8, rows['fp8, short sums'])}), and with the head's "
        f"gradients in fp8 as well {_faster(rows, 'fp8 + head')}, for which the loss pays. On the "
        f"{elsewhere.provenance.device}{copied} the step by hand is {_faster(there, 'hand')} as fast as the compiled "
        f"peer, in fp8 {_faster(there, 'all fp8')}.",
    ]


def _faster(rows: Mapping[str, Step], name: str) -> str:
    return f"{rows[DEFAULT]['median_ms'] / rows[name]['median_ms']:.2f}×"


def _apart(one: Step, other: Step) -> str:
    return "told apart" if capstone_view.distinct(one, other) else "not told apart"


def _stopped(recording: Recording) -> str:
    """What was tried and did not run, with its error."""
    each = [f"{row['name'].removeprefix('peer, ')} ({row['stopped']})" for row in recording.result["stopped"]]
    return f"What did not run: {'; '.join(each)}." if each else ""
