"""Long sequences as a reader sees them: growth, masks by owner, balance, runs, rows."""

from collections.abc import Iterable, Mapping, Sequence

import torch

from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Cell, Line, Row, cells, dots, lines, segments
from compile_lab.page.tables import Table
from compile_lab.page.units import percent

from .attention import Run, shards_sent
from .balance import ORDERS, balance, causal, document_of, owners
from .experiments.context_parallel import ALONE, Timed
from .in_page import MILLION, Bill
from .losses import Gradient
from .packing import Kind, Layout, pairs
from .recompiles import Compiled

RANKS = "blue", "orange", "green", "vermillion"
H200_GB = 141
FIELDS = 24
"""Fields of a mask's picture along each side."""


def growth(devices: Sequence[int] = (1, 8, 64)) -> Drawing:
    """What a device saves for the backward, against length."""
    lengths = [1024 * 2**power for power in range(11)]
    rows = {
        f"{count} device{'s' * (count > 1)}": [(at, Bill(at, count).activations / 1e9) for at in lengths]
        for count in devices
    }
    most, least = (Bill(MILLION, count).activations / 1e9 for count in (devices[0], devices[-1]))
    return lines(
        {"": [Line(name, points) for name, points in rows.items()]},
        Axis("length of one sequence, tokens", log=True, until=MILLION, ticks=[1024, 32_768, MILLION]),
        Axis("activations a device saves", "GB", log=True, low=0.01, until=10_000, ticks=[0.1, 1, 10, 100, 1000]),
        title=f"A sequence of a million tokens saves {most:,.0f} GB of activations; cut into {devices[-1]} parts, "
        f"{least:.0f} GB a device.",
        references={f"memory of an H200, {H200_GB} GB": (H200_GB, "grey")},
        caption="Computed for 32 layers of width 4,096 in 16 bits, without the scores of attention: 34 bytes a token "
        "and channel.",
    )


def mask_by_owner(order: str, lengths: Sequence[int], size: int) -> list[object]:
    """The mask, each row of queries in the colour of the rank that holds them; and the pairs of each rank.

    A field is coloured if at least one of its pairs is computed.
    """
    length, documents = sum(lengths), document_of(lengths)
    every, owner, side = torch.arange(length), owners(order, lengths, size), sum(lengths) // FIELDS
    allowed = causal(every[:, None], every[None], documents).view(FIELDS, side, FIELDS, side).any(3).any(1)
    rows = owner.view(FIELDS, side)[:, 0].tolist()
    grid = [
        [Cell(series=f"rank {rank}" if field else "") for field in row]
        for rank, row in zip(rows, allowed.tolist(), strict=True)
    ]
    found = balance(order, lengths, size)
    colours = {f"rank {rank}": RANKS[rank] for rank in range(size)}
    mask = cells(
        {"": grid},
        title=f"The slowest rank computes {found.slowest:.2f} times the mean, so the ranks wait {percent(found.idle)} "
        "of the time.",
        colours=colours,
        caption=f"Queries down, keys across. A field is {side} of {length:,} positions each way, in the colour of "
        "the rank that holds its first query.",
    )
    bars = segments(
        [Row(f"rank {rank}", {f"rank {rank}": each / 1e3}) for rank, each in enumerate(found.pairs)],
        Axis("pairs", "k"),
        title=f"Rank {found.pairs.index(max(found.pairs))} computes the most.",
        colours=colours,
    )
    return [mask, bars]


def balances(kinds: Mapping[str, Sequence[int]], size: int) -> Drawing:
    """The slowest rank over the mean, by order, for each kind of sequence, given by the lengths of its documents."""
    slowest = {kind: [balance(order, lengths, size).slowest for order in ORDERS] for kind, lengths in kinds.items()}
    packed_ = dict(zip(ORDERS, slowest["documents"], strict=True))
    best = min(packed_, key=lambda order: packed_[order])
    return dots(
        list(ORDERS),
        slowest,
        unit="×",
        title=f"With packed documents the slowest rank computes {packed_['head-tail']:.2f} times the mean "
        f"under head-tail, and {packed_[best]:.2f} times {best}.",
        caption="The slowest rank's pairs, over the mean of all ranks.",
    )


def sent(found: Sequence[Run]) -> Drawing:
    """What a rank sends in a training step, by way, in the order of `attention.WAYS`."""
    first, last = found[0], found[-1]
    return segments(
        [Row(each.way, {"forward": each.forward_sent / 1e3, "backward": each.backward_sent / 1e3}) for each in found],
        Axis("sent by a rank in a step", "kB"),
        title=f"The ring that keeps one shard sends {last.sent / first.sent:.2f} times as much as the all-gather.",
    )


def on_gpus(rows: Sequence[Timed], provenance: object) -> Drawing:
    """How many times as fast as one GPU, by length and order, next to what the slowest rank's pairs allow."""
    ms = {(each.length, each.order): each.median_ms for each in rows if each.method != "alltoall"}
    size, longest = max(each.ranks for each in rows), max(each.length for each in rows)
    made, faster = [], {}
    for (length, order), taken in ms.items():
        if order != ALONE:
            faster[length, order] = ms[length, ALONE] / taken
            bound = size / balance(order, [512 * size], size).slowest
            parts, after = {"measured": faster[length, order]}, f"{faster[length, order]:.2f} of {bound:.2f}×"
            made.append(Row(order, parts, after=after, group=f"{length:,} tokens", marks={"by pairs": bound}))
    return segments(
        made,
        Axis("times as fast as one GPU", "×"),
        title=f"At {longest:,} tokens {size} GPUs are {faster[longest, 'in order']:.2f} times as fast as one if the "
        f"sequence is cut in order, and {faster[longest, 'head-tail']:.2f} times if it is dealt head-tail.",
        colours={"measured": "blue", "by pairs": "vermillion"},
        provenance=provenance,
    )


def runs(found: Iterable[Run]) -> Table:
    """Each way: is it right, what it sends, what it keeps."""
    rows = [
        (each.way, each.off < 1e-5, each.forward_sent, each.backward_sent, each.kept, each.kept // each.shard)
        for each in found
    ]
    columns = ["way", "as one process, to 1e-5", "sent forward, bytes", "sent backward, bytes"]
    return Table([*columns, "K and V kept, bytes", "in shards"], rows, align="llrrrr")


def to_the_byte(found: Mapping[int, Iterable[Run]]) -> Table:
    """What a rank sends in a step, by number of ranks: by formula, and counted."""
    rows = [
        (size, each.way, shards_sent(each.way, size) * each.shard, each.sent)
        for size, runs_ in found.items()
        for each in runs_
    ]
    return Table(["ranks", "way", "by formula, bytes", "counted, bytes"], rows, align="rlrr")


def waste(layouts: Sequence[Layout]) -> Drawing:
    """Positions of each layout: tokens, and padding."""
    rows = [
        Row(
            each.name,
            {"tokens": each.tokens / 1e3, "padding": (each.positions - each.tokens) / 1e3},
            after=f"{percent(each.waste, 0 if each.waste >= 0.1 else 1)} padding",
        )
        for each in layouts
    ]
    first, last = layouts[0].waste, layouts[-1].waste
    return segments(
        rows,
        Axis("positions", "k"),
        title=f"Padding takes {percent(first)} of the positions; packed, {percent(last, 1)}.",
        colours={"tokens": "blue", "padding": "grey"},
    )


def row_work(rows: Sequence[Sequence[int]], row: int, shown: int = 6) -> Drawing:
    """Rows of as many positions, from most pairs to fewest: how many each has to compute."""
    ordered = sorted(rows, key=pairs, reverse=True)
    some = [ordered[round(at * (len(ordered) - 1) / (shown - 1))] for at in range(shown)]
    most, least = pairs(ordered[0]), pairs(ordered[-1])
    return segments(
        [Row(f"{len(each)} document{'s' * (len(each) > 1)}", {"pairs": pairs(each) / 1e3}) for each in some],
        Axis("pairs in a row", "k"),
        title=f"Rows of {row:,} positions differ {most / least:.0f}-fold in the pairs that they compute.",
    )


def packed(kinds: Iterable[Kind]) -> Table:
    """What each mask and numbering does."""
    rows = [(each.positions, each.masked, "anew" if each.restart else "through", percent(each.wrong)) for each in kinds]
    return Table(["positions", "document mask", "numbered", "outputs that are wrong"], rows, align="lllr")


def compiled(found: Iterable[Compiled]) -> Table:
    """Graphs after each row, and breaks."""
    rows = [(each.way, " ".join(map(str, each.graphs)), each.breaks, each.ending) for each in found]
    return Table(["way", "graphs after each row", "breaks", "in the end"], rows, align="llrl")


def gradients(found: Iterable[Gradient]) -> Table:
    """How far DDP's gradient is from one process's, by the scale of a rank's loss."""
    rows = [(each.how, "right" if each.off < 1e-5 else f"off by {percent(each.off)}") for each in found]
    return Table(["each rank's loss is", "DDP's gradient"], rows, align="ll")
