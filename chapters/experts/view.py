"""The routed layer as a reader sees it: boxes, graphs, exchanges between ranks, and who compiles when."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Cell, Line, Node, Row, cells, lines, nodes, segments
from compile_lab.page.tables import Table

from .boxes import boxed, room
from .captured import Captured
from .parallel import OnRank
from .sizes import CAPACITY
from .steps import Compiled

BOX = {"computed": "blue", "dropped": "vermillion", "padding": "grey"}
CAPACITIES = [step / 20 for step in range(10, 81, 5)]


def filled(counts: Sequence[int], tokens: int) -> Drawing:
    """Each expert's rows in a box of the capacity factor's size."""
    size = room(tokens, CAPACITY)
    drawn, every = [], boxed(counts, size)
    for expert, count in enumerate(counts):
        kept = min(count, size)
        parts = {"computed": kept, "dropped": count - kept, "padding": size - kept}
        drawn.append(Row(f"expert {expert}", {name: rows for name, rows in parts.items() if rows}, after=str(count)))
    title = (
        f"With boxes of {size} rows, {every.dropped} of {sum(counts)} assignments are dropped, and {every.padding} of "
        f"{every.computed} computed rows are padding."
    )
    return segments(drawn, Axis("rows", ""), title=title, colours=BOX, references={"the box": (size, "purple")})


def layer_chart() -> Drawing:
    """A token's way through the layer."""
    boxes = [
        Node("tokens", 0, note="[tokens, width]"),
        Node("router", 1, note="k experts and gates"),
        Node("sort", 2, note="tokens · k rows", series="data-dependent"),
        Node("experts", 3, note="up, GELU, down", series="data-dependent"),
        Node("combine", 4, note="weighted sum"),
        Node("output", 5, note="[tokens, width]"),
    ]
    names = [box.name for box in boxes]
    edges = [*pairwise(names), ("router", "combine")]
    title = "Between the router and the sum, how many rows an expert gets depends on the data."
    return nodes(boxes, edges, title=title, colours={"data-dependent": "orange"})


def capacities(counts: Mapping[str, Sequence[int]], tokens: int) -> Drawing:
    """What is dropped and padded, by the capacity factor, for each router."""
    panels = {}
    for name, each in counts.items():
        found = [(factor, boxed(each, room(tokens, factor))) for factor in CAPACITIES]
        panels[name] = [
            Line("dropped", [(factor, 100 * one.lost) for factor, one in found]),
            Line("padding", [(factor, 100 * one.empty) for factor, one in found]),
        ]
    skewed = boxed(list(counts.values())[-1], room(tokens, CAPACITY))
    title = (
        f"At a capacity of {CAPACITY}, {list(counts)[-1]} drops {skewed.lost:.0%} of the assignments and fills "
        f"{skewed.empty:.0%} of the rows with padding."
    )
    colours = {"dropped": "vermillion", "padding": "grey"}
    axes = Axis("capacity factor"), Axis("of the assignments, of the rows", "%")
    return lines(panels, *axes, title=title, colours=colours)


def graphs(found: Iterable[Captured]) -> Table:
    """What torch.compile made of each way to dispatch."""
    columns = ["dispatch", "graphs", "new in each step", "breaks counted", "calls compiled", "equals eager mode"]
    rows = [
        (each.name, each.graphs, " ".join(map(str, each.new)), each.breaks, each.calls, each.wrong_by < 1e-6)
        for each in found
    ]
    return Table(columns, rows, align="lrlrrl")


def exchanges(found: Sequence[OnRank]) -> Table:
    """Bytes that leave each rank, all-to-all by all-to-all."""
    columns = [
        "",
        "rows computed",
        "counts",
        "dispatch",
        "combine",
        "combine's gradient",
        "dispatch's gradient",
        "in all",
    ]
    rows: list[list[str | int]] = []
    for rank, each in enumerate(found):
        rows.append([f"rank\N{NO-BREAK SPACE}{rank}", each.held, *(one.sent for one in each.exchanges), each.sent])
    return Table(columns, rows, "Bytes that leave each rank in one step", align="lrrrrrrr")


def busy(found: Sequence[OnRank]) -> Drawing:
    """Rows that each rank computes, and bytes that it sends in the forward's two exchanges of rows."""
    rows = []
    for rank, each in enumerate(found):
        sent = [one.sent for one in each.exchanges if not one.backward][-2:]
        parts = dict(zip(("dispatch", "combine"), (nbytes / 1000 for nbytes in sent), strict=True))
        rows.append(Row(f"rank {rank}: {each.held:,} rows", parts))
    most = max(range(len(found)), key=lambda rank: found[rank].sent)
    title = f"Rank {most} sends the most, since it returns what its experts computed for the others."
    return segments(
        rows, Axis("bytes sent in the forward", "kB"), title=title, colours={"dispatch": "blue", "combine": "orange"}
    )


def compiled(cases: Mapping[str, Sequence[Compiled]], provenance: object) -> Table:
    """Each case: graphs of all ranks, breaks, all-to-alls of a step, collectives of guards."""
    rows = [
        (
            name,
            sum(sum(each.new) for each in ranks),
            max(each.breaks for each in ranks),
            f"{ranks[0].forward} + {ranks[0].backward}",
            sum(ranks[0].guarded),
            max(each.wrong_by for each in ranks) < 1e-6,
        )
        for name, ranks in cases.items()
    ]
    columns = ["program", "graphs", "breaks", "all-to-alls", "guard collectives", "right"]
    return Table(columns, rows, str(provenance), align="lrrrrl")


def when(cases: Mapping[str, Sequence[Compiled]], title: str, provenance: object = None) -> Drawing:
    """Which rank compiles in which step."""
    grids = {
        name: [[Cell("compiles", "compiles") if new else Cell("runs") for new in each.new] for each in found]
        for name, found in cases.items()
    }
    first = next(iter(cases.values()))
    return cells(
        grids,
        rows=[f"rank {rank}" for rank in range(len(first))],
        columns=[f"step {step + 1}" for step in range(len(first[0].new))],
        title=title,
        colours={"compiles": "orange"},
        provenance=provenance,
    )


def same(distance: float) -> str:
    """How near two results are, in words that are the same on each machine."""
    if distance < 1e-2:
        return "to 1e-6" if distance < 1e-6 else "to 1e-2"
    return f"off by {distance:.0%}"
