"""What the recording ``capstone_sizes`` shows: where each rung stops paying, and how good the prediction was."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compile_lab.doors import door
from compile_lab.measure.timing import distinct
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, dotted
from compile_lab.page.tables import Cell, Table
from compile_lab.page.units import signed, with_quartiles
from compile_lab.recordings import Recording

from .capstone_sizes import SizeRow
from .capstone_sizes_model import RUNGS, Size

PEER, REPLAYED, TOGETHER, HAND, FP8 = RUNGS
MODELS = {(12, 768): "124M", (24, 1024): "350M", (24, 1536): "758M, wide", (36, 1280): "774M"}
NAMES = {REPLAYED: "the peer with CUDA graphs", TOGETHER: "*together*", HAND: "the step by hand", FP8: "*all fp8*"}


@dataclass(frozen=True)
class TimedRow(SizeRow):
    """A rung that was timed."""

    median_ms: float = 0.0
    low_ms: float = 0.0
    high_ms: float = 0.0


@dataclass(frozen=True)
class Compared:
    """A rung at one size, and the compiled peer at that size: how many times as fast it is, predicted and measured."""

    row: TimedRow
    peer: TimedRow

    @property
    def predicted(self) -> float:
        return self.peer.predicted.ms / self.row.predicted.ms

    @property
    def measured(self) -> float:
        return self.peer.median_ms / self.row.median_ms

    @property
    def quartiles(self) -> tuple[float, float]:
        """The ratio where either step's quartiles make it least and most."""
        return self.peer.low_ms / self.row.high_ms, self.peer.high_ms / self.row.low_ms

    @property
    def pays(self) -> bool:
        """It is faster than the compiled peer, told apart."""
        return self.measured > 1 and distinct(self.row, self.peer)


def rows(recording: Recording) -> list[SizeRow]:
    """Of each rung at each size."""
    return [SizeRow.from_json(each) for each in recording.result["rows"]]


def measured(recording: Recording) -> dict[Size, dict[str, TimedRow]]:
    """The sizes at which the compiled peer was timed, and the rungs that were."""
    found: dict[Size, dict[str, TimedRow]] = {}
    for row in rows(recording):
        if row.median_ms is not None:
            found.setdefault(row.size, {})[row.rung] = TimedRow(**vars(row))
    return {size: timed for size, timed in found.items() if PEER in timed}


def compared(timed: Mapping[str, TimedRow]) -> dict[str, Compared]:
    """Each rung at one size beside the peer."""
    return {name: Compared(row, timed[PEER]) for name, row in timed.items() if name != PEER}


def label(size: Size) -> str:
    return f"{MODELS.get((size.layers, size.dim), f'{size.layers} × {size.dim:,}')}, batch {size.batch}"


def error(row: TimedRow) -> float:
    """By how much the prediction is too long, of the measured time; below 0 it is too short."""
    return row.predicted.ms / row.median_ms - 1


def launches_limit(row: SizeRow) -> bool:
    """Whether the program takes longer to launch the step than the GPU to run its kernels."""
    return row.issued_ms > row.kernels_ms if row.kernels_ms and row.issued_ms else False


@door
def picture(recording: Recording) -> Drawing:
    """A row for each rung at each size: how many times as fast as the compiled peer, predicted and measured."""
    found, drawn, cells = measured(recording), [], []
    for size, timed in found.items():
        for name, one in compared(timed).items():
            values = {"predicted": one.predicted, "measured": one.measured}
            drawn.append(Row(name, values, group=label(size), spreads={"measured": one.quartiles}))
        cells += [_cells(size, row) for row in timed.values()]
    least, most = min(found, key=_tokens), max(found, key=_tokens)
    ends = [f"{compared(found[size])[HAND].measured:.2f} with {label(size)}" for size in (least, most)]
    columns = ["", "rung", "predicted, ms", "measured, ms", "error", "kernels, ms", "launching, ms", "memory"]
    return dotted(
        drawn,
        Axis("compiled peer = 1", "×"),
        title=f"By hand in bf16 a step is {' and '.join(ends)} times as fast as the compiled peer's.",
        caption="At each size all took turns. Lines: quartiles of both steps",
        provenance=recording.provenance,
        table=Table(
            [*columns, "clock, power"],
            cells,
            caption="Launching: until the program has issued a step, from an idle GPU",
            align="llrrrrrrr",
        ),
    )


@door
def text(recording: Recording) -> list[str]:
    """A paragraph each on where a rung pays, on where the launches limit, on the model's error, and on what is left."""
    found = measured(recording)
    small = {size: timed for size, timed in found.items() if any(map(launches_limit, timed.values()))}
    large = {size: timed for size, timed in found.items() if size not in small}
    worst = max((row for timed in large.values() for row in timed.values()), key=lambda row: abs(error(row)))
    family, was, found_ms = _missed(worst)
    unlike = {size: timed.values() for size, timed in large.items() if (size.layers, size.dim) != (12, 768)}
    paragraphs = [_paying(found)]
    if small:
        size = min(small, key=_tokens)
        peer, together, hand = (small[size][name] for name in (PEER, TOGETHER, HAND))
        paragraphs.append(
            f"The program takes longer to launch a compiled step than the GPU to run it with {_and(small)}. "
            f"With {label(size)} the peer's kernels run for {peer.kernels_ms:.1f} ms, and launching them takes "
            f"{peer.issued_ms:.1f} ms. The model predicted {peer.predicted.launching_ms:.1f} ms, by the rate of "
            f"a forward alone, an error of {_in_percent([peer])}. By hand the step is one CUDA graph: it takes "
            f"{hand.median_ms:.1f} ms where {hand.predicted.ms:.1f} were predicted. Most of that gain is "
            f"the graph's: the kernels of {NAMES[TOGETHER]} run for {together.kernels_ms:.1f} ms."
            + (_replayed(small[size]) if REPLAYED in small[size] else "")
        )
    paragraphs.append(
        f"Where the GPU is the limit, bytes and FLOPs predict every step to within {100 * abs(error(worst)):.0f} % "
        f"({NAMES.get(worst.rung, 'the compiled peer')} with {label(worst.size)}, where the kernels of “{family}” "
        f"take {found_ms:.1f} ms, not {was:.1f}), though the model knows only batch 32 with 124M, in earlier runs."
        + "".join(f" With {label(size)} the errors are {_in_percent(unlike[size])}." for size in unlike)
    )
    return [*paragraphs, *_left(recording), *recording.result["notes"]]


def _paying(found: Mapping[Size, Mapping[str, TimedRow]]) -> str:
    parts = []
    for name in (each for each in RUNGS if each != PEER and any(each in timed for timed in found.values())):
        at = {size: compared(timed)[name] for size, timed in found.items() if name in timed}
        low, high = (min(at, key=lambda size: at[size].measured), max(at, key=lambda size: at[size].measured))
        ends = f"{at[low].measured:.2f}× ({label(low)}) to {at[high].measured:.2f}× ({label(high)})"
        never = [size for size, one in at.items() if not one.pays]
        parts.append(f"{NAMES[name]} is {ends} as fast" + (f", and does not pay with {_and(never)}" if never else ""))
    return f"Compared with the compiled peer, {'; '.join(parts)}."


def _replayed(timed: Mapping[str, TimedRow]) -> str:
    """What is left of the gain where the peer's forward and backward are CUDA graphs, too."""
    row, hand = timed[REPLAYED], timed[HAND]
    ratio = f"{row.median_ms / hand.median_ms:.2f} times as fast as that" if distinct(row, hand) else "not told apart"
    return (
        f" With CUDA graphs of its forward and its backward (`triton.cudagraphs`) the peer takes {row.median_ms:.1f} "
        f"ms, where {row.predicted.ms:.1f} were predicted; by hand the step is {ratio}."
    )


def _missed(row: SizeRow) -> tuple[str, float, float]:
    """The family of kernels that was predicted worst, with its predicted and its measured milliseconds."""
    known, took = dict(row.predicted.families), row.families or {}
    known["matmuls"] += known.pop("head")
    family = max(known, key=lambda name: abs(took[name] - known[name]))
    return family, known[family], took[family]


def _and(sizes: Iterable[Size]) -> str:
    *most, last = map(label, sizes)
    return f"{'; '.join(most)} and {last}" if most else last


def _left(recording: Recording) -> list[str]:
    """What was not measured: at each size the rungs, or all of them, and why."""
    why: dict[tuple[Size, str], list[str]] = {}
    for row in rows(recording):
        if row.stopped:
            why.setdefault((row.size, row.stopped), []).append(row.rung)
    listed = [
        f"{' and '.join(names) if len(names) < len(RUNGS) else 'all'} with {label(size)} ({reason})"
        for (size, reason), names in why.items()
    ]
    return [f"Not measured: {'; '.join(listed)}."] if listed else []


def _cells(size: Size, row: TimedRow) -> tuple[Cell, ...]:
    return (
        label(size),
        row.rung,
        f"{row.predicted.ms:.1f}",
        with_quartiles(row.median_ms, row.low_ms, row.high_ms),
        f"{signed(100 * error(row), '.0f')} %",
        f"{row.kernels_ms:.1f}" if row.kernels_ms else None,
        f"{row.issued_ms:.1f}" if row.issued_ms is not None else None,
        f"{row.peak_nbytes / 1e9:.1f} GB" if row.peak_nbytes else None,
        f"{row.clock_mhz:,.0f} MHz, {row.power_w:.0f} W" if row.clock_mhz and row.power_w else None,
    )


def _tokens(size: Size) -> tuple[int, int]:
    return size.layers * size.dim * size.batch, size.batch


def _in_percent(several: Iterable[TimedRow]) -> str:
    return ", ".join(f"{signed(100 * error(row))} %" for row in several)
