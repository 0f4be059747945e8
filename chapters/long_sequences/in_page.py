"""What a long sequence costs on paper, and the exercises of chapter 17 that plain Python can judge."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from compile_lab.page.axes import Range
from compile_lab.page.marks import Axis, Row, segments, short
from compile_lab.page.units import in_gb, percent

from ..exercises.judging import exercise

MILLION = 2**20


# ---- the bill
@dataclass(frozen=True)
class Bill:
    """One layer of a GPT in 16 bits, and how many there are, for one sequence on `devices` along the axis cp.

    A layer saves 34 bytes a token and channel if no scores are saved (Korthikanti et al., 2023), has 12 · width²
    parameters, and 6 FLOPs a parameter and token in forward and backward. Attention is causal: half of the pairs.
    """

    length: int
    devices: int = 1
    layers: int = 32
    heads: int = 32
    head_width: int = 128
    kv_heads: int = 32

    @property
    def width(self) -> int:
        return self.heads * self.head_width

    @property
    def activations(self) -> float:
        """Bytes that a device saves for the backward, in all layers."""
        return 34 * self.width * self.length * self.layers / self.devices

    @property
    def gathered(self) -> int:
        """Bytes of the whole sequence's keys and values of one layer, on each device."""
        return 2 * 2 * self.kv_heads * self.head_width * self.length * (self.devices > 1)

    @property
    def sent(self) -> float:
        """Bytes that a device sends in a step, in all layers: two all-gathers, the second one in the backward, and a
        reduce-scatter of the gradients.
        """
        return 3 * self.gathered * self.layers * (self.devices - 1) / self.devices

    @property
    def scores(self) -> float:
        """Bytes of one layer's scores and their softmax, where no fused kernel spares them; all pairs."""
        return 2 * 2 * self.heads * self.length**2 / self.devices

    @property
    def linear_flops(self) -> float:
        return 6 * 12 * self.width**2 * self.length * self.layers / self.devices

    @property
    def attention_flops(self) -> float:
        return 6 * self.width * self.length**2 * self.layers / self.devices

    @property
    def even(self) -> int:
        """The length from which attention takes more FLOPs than the matmuls of the layer: 12 times the width."""
        return 12 * self.width


DEVICES, KV_HEADS = ("8", "1", "2", "4", "16", "64"), ("32", "8")
AXES: dict[str, Any] = {
    "length": Range(1024, MILLION, 131_072, 1024, "tokens", log=True),
    "devices": DEVICES,
    "kv_heads": KV_HEADS,
    "layers": Range(1, 96, 32),
}
STORED = {"devices": ("8", "1", "64"), "kv_heads": ("32",)}


def panel(length: int, devices: str, kv_heads: str, layers: int) -> list[Any]:
    """The bill of a choice: what a device holds, and what it computes. ValueError for lengths that nothing has."""
    if not 1 <= length <= 2**30 or layers < 1:
        raise ValueError(f"{length:,} tokens in {layers} layers: give 1 to 2³⁰ tokens and a layer at least")
    bill = Bill(int(length), int(devices), int(layers), kv_heads=int(kv_heads))
    held = {"activations, all layers": bill.activations / 1e9}
    if bill.gathered:
        held["K and V of the whole sequence, one layer"] = bill.gathered / 1e9
    share = bill.attention_flops / (bill.attention_flops + bill.linear_flops)
    memory = segments(
        [Row("a device holds", held)],
        Axis("memory", "GB"),
        title=f"For {bill.length:,} tokens a device saves {in_gb(bill.activations)}.",
    )
    work = {"linear layers": bill.linear_flops / 1e15, "attention": bill.attention_flops / 1e15}
    flops = segments(
        [Row("a device computes", work)],
        Axis("PFLOP"),
        title=f"Attention takes {percent(share)} of the FLOPs; at {bill.even:,} tokens it would be half.",
        colours={"linear layers": "sky", "attention": "vermillion"},
    )
    said = f"A device sends {in_gb(bill.sent)} a step." if bill.gathered else "One device sends nothing."
    scores = f"Without a fused kernel, the scores of one layer would take {short(bill.scores / 1e9)} GB more."
    return [memory, flops, f"{said} {scores}"]


# ---- exercises
@exercise("17.1", takes=float)
def slowest_of_64(answer: float) -> str | None:
    """How many times the mean the last of 64 ranks computes, in order, causal."""
    right = 2 - 1 / 64
    if abs(answer - right) < 0.02:
        return None
    if abs(answer - 64) < 1:
        return "64 would be so if the others did nothing."
    return "which share of all pairs lies in the last 64th of the queries, and which share is the mean?"


@exercise("17.2", takes=Callable)
def deal(answer: Callable[[list[int], int], Sequence[Sequence[int]]]) -> str | None:
    """deal(lengths, ranks): a list of positions for each rank, so that all compute as many pairs."""
    for lengths, ranks in (([32], 2), ([64], 4), ([48, 16], 2), ([8, 72, 16], 4), ([16, 16, 32, 128], 8)):
        got = [list(each) for each in answer(list(lengths), ranks)]
        case = f"for documents of {', '.join(map(str, lengths))} on {ranks} ranks"
        if len(got) != ranks:
            return f"{case} it has {len(got)} lists."
        if sorted(place for each in got for place in each) != list(range(sum(lengths))):
            return f"{case} not every position is there, once."
        looks = [place for length in lengths for place in range(1, length + 1)]
        work = [sum(looks[place] for place in each) for each in got]
        if len({*map(len, got)}) > 1:
            return f"{case} the ranks hold {', '.join(str(len(each)) for each in got)} positions: as many each."
        if max(work) > min(work):
            return f"{case} they compute {', '.join(map(str, work))} pairs."
    return None


LONG, FREE_GB = Bill(262_144, layers=48, heads=64), 80


@exercise("17.4", takes=int)
def fewest_gpus(answer: int) -> str | None:
    """GPUs among which `LONG` has to be cut, so that each has room for its activations in `FREE_GB`."""
    right = math.ceil(LONG.activations / FREE_GB / 1e9)
    if answer == right:
        return None
    if answer == right - 1:
        return "that many hold a little less than all of them."
    if answer == math.ceil(LONG.activations / LONG.layers / FREE_GB / 1e9):
        return "that is enough for one layer."
    return "34 bytes for each token, channel and layer: how many are these?"
