"""Training graphs as a reader sees them: code without its wrapping, tables and plots of what is saved and why."""

import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Sized

from ..page.figures import Drawing, Series
from ..page.marks import bars
from ..page.tables import Code, Table
from ..page.units import percent, with_unit, without_namespace
from ..source import Line
from .nodes import Graph
from .saved import SavedTensor, folded
from .training import TrainingGraphs


def code(graph: Graph) -> Code:
    """A graph as Python, without the class around it and the module paths that every name repeats."""
    lines = [line for line in graph.code.splitlines() if line.strip() and not line.startswith("class ")]
    text = textwrap.dedent("\n".join(lines))
    return Code(text.replace("torch.ops.", "").replace(".default(", "("))


def listing(graph: Graph) -> Code:
    """A graph in few words: one line an operation, without types or constants, with what is saved or computed again."""
    lines = []
    for node in graph.nodes:
        if node.is_op:
            said = "  # saved" if node.saved and graph.stage == "forward" else ""
            said = "  # again" if node.recomputed and graph.stage == "backward" else said
            inputs = ", ".join(graph[name].title or name for name in node.inputs)
            lines.append(f"{node.name} = {without_namespace(node.op)}({inputs}){said}")
    return Code("\n".join(lines), language="text", title=f"{graph.stage}")


def saved(graphs: TrainingGraphs, *, residents: bool = True, named: bool = False) -> Table:
    """One row for saved tensors that are alike: what it is, its bytes, its line, why it is saved, who reads it.

    ``residents=False`` leaves out what keeps no further byte: inputs, parameters, second views of a buffer;
    ``named=True`` puts the partitioner's rule before each reason.
    """
    rows = [
        (
            _what(each, graphs),
            each.count,
            str(list(each.shape)),
            each.extra_nbytes,
            _at(each.source),
            f"{each.rule}: {each.why}" if named and not each.resident else each.why,
            _readers(each),
        )
        for each in folded(graphs.saved)
        if residents or each.extra_nbytes
    ]
    columns = ["saved", "×", "shape", "extra bytes", "line", "why it is saved", "read in the backward by"]
    return Table(columns, rows, align="lrlrlll")


def rules(graphs: TrainingGraphs) -> Table:
    """One row a rule of the partitioner: how many tensors it saved, and how many bytes they keep."""
    return Table(["the partitioner's rule", "tensors", "extra bytes"], _rules(graphs))


def _rules(graphs: TrainingGraphs) -> list[tuple[str, int, int]]:
    tensors, extra = Counter[str](), Counter[str]()
    for each in graphs.saved:
        tensors[each.rule] += 1
        extra[each.rule] += each.extra_nbytes
    return [(rule, count, extra[rule]) for rule, count in sorted(tensors.items(), key=lambda row: -extra[row[0]])]


def by_rule(graphs: TrainingGraphs, caption: str = "") -> Drawing:
    """Bars of the kB that each rule of the partitioner keeps; rules that keep no further byte stand in the table alone.

    Raises ValueError where nothing is kept.
    """
    kept = {rule: extra for rule, _, extra in _rules(graphs) if extra}
    _kept_something(kept)
    first = next(iter(kept))
    title = f"{with_unit(kept[first])} of {with_unit(graphs.saved_nbytes)} are kept by one rule, {first}."
    series = Series("kept", list(kept), [extra / 1e3 for extra in kept.values()])
    return bars(series, value_title="kept, kB", title=title, caption=caption, table=rules(graphs))


def largest(graphs: TrainingGraphs, most: int = 8, caption: str = "") -> Drawing:
    """Bars of the kB of the largest tensors kept, alike ones together; the table has all that keep a further byte.

    Raises ValueError where nothing is kept.
    """
    kept = sorted((each for each in folded(graphs.saved) if each.extra_nbytes), key=lambda each: -each.extra_nbytes)
    _kept_something(kept)
    names = [_tensor_text(each, graphs) for each in kept[:most]]
    series = Series("kept", names, [each.extra_nbytes / 1e3 for each in kept[:most]])
    share = sum(each.extra_nbytes for each in kept[:most]) / graphs.saved_nbytes
    title = f"The {len(names)} largest kinds of tensors are {percent(share)} of all that is kept."
    return bars(series, value_title="kept, kB", title=title, caption=caption, table=saved(graphs, residents=False))


def _kept_something(kept: Sized) -> None:
    if not kept:
        raise ValueError("nothing to draw: this function keeps no byte besides its inputs")


def recomputed(graphs: TrainingGraphs) -> Table:
    """One row for the recomputed operations of one kind on one line: how many, and the bytes of their results.

    Views are left out: they cost nothing either way.
    """
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for each in graphs.recomputed:
        if each.nbytes:
            groups[without_namespace(each.op), _at(each.source)].append(each.nbytes)
    rows = [(op, len(sizes), line, sum(sizes)) for (op, line), sizes in groups.items()]
    return Table(["computed again", "×", "line", "bytes of the results"], rows)


def decompositions(graphs: TrainingGraphs, calls: Iterable[str] | None = None) -> Table:
    """One row a captured call (or those named in ``calls``): the operations it became in the forward and backward."""
    wanted = None if calls is None else set(calls)
    rows = [
        (Code(each.call), counted(each.forward), counted(each.backward))
        for each in graphs.decompositions
        if wanted is None or each.call in wanted
    ]
    return Table(["called", "in the forward", "in the backward"], rows)


def counted(ops: Iterable[str]) -> str:
    """Operations with how often each occurs, in order: ``mul ×3, add``."""
    counts = Counter(map(without_namespace, ops))
    return ", ".join(op if n == 1 else f"{op} ×{n}" for op, n in counts.items()) or "–"


def comparison(graphs: dict[str, TrainingGraphs]) -> Table:
    """One row for each of several partitions of the same function: operations, saved tensors and bytes."""
    rows = [
        (
            name,
            each.forward.ops,
            each.backward.ops,
            len(each.recomputed),
            sum(bool(tensor.extra_nbytes) for tensor in each.saved),
            each.saved_nbytes,
        )
        for name, each in graphs.items()
    ]
    columns = ["partition", "forward ops", "backward ops", "recomputed ops", "buffers kept", "bytes kept"]
    return Table(columns, rows)


def _tensor_text(each: SavedTensor, graphs: TrainingGraphs) -> str:
    times = f"{each.count} × " if each.count > 1 else ""
    what = "attention" if "attention" in each.op else _what(each, graphs)
    return f"{times}{what} {list(each.shape)}, {_at(each.source)}"


def _what(each: SavedTensor, graphs: TrainingGraphs) -> str:
    if each.op == "input":
        return each.title
    of = each.title or (without_namespace(_maker(each.view_of, graphs)) if each.view_of else "")
    return f"{without_namespace(each.op)} of {of}" if of else without_namespace(each.op)


def _maker(name: str, graphs: TrainingGraphs) -> str:
    """The operation behind a node; of a member of a tuple, what made the tuple."""
    node = graphs.forward[name]
    return _maker(node.inputs[0], graphs) if node.op == "getitem" else node.op


def _readers(each: SavedTensor) -> str:
    return counted(reader.op for reader in each.readers)


def _at(line: Line | None) -> str:
    return str(line) if line else "–"
