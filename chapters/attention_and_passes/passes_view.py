"""A pass of one's own as a reader sees it: the graph before and after, node by node, the verdict, and what it saves."""

from compile_lab.inductor.view import evidence
from compile_lab.page.figures import Drawing, Series
from compile_lab.page.marks import bars
from compile_lab.page.tables import Cell, Code, Table
from compile_lab.page.units import with_unit

from .passes import PassReport, PassRun
from .passes_graph import NodeChange
from .passes_judged import JudgedTensor

SIGNS = {"removed": "−", "added": "+", "changed": "~"}


def difference(run: PassRun, around: int = 1) -> Code:
    """The graph as text, where it was changed: ``−`` removed, ``+`` added, ``~`` reads something else, and so many
    nodes around each. What lies between is left out, and told by its number of nodes.
    """
    changes: dict[str, list[NodeChange]] = {}
    last = ""
    kept = {node.name for node in run.after}
    places: dict[str, str] = {}
    for node in run.before:
        last = node.name if node.name in kept else last
        places[node.name] = last
    for change in run.changes:
        name = change.node.name if change.after else places[change.node.name]
        changes.setdefault(name, []).append(change)
    lines = [_line(each) for each in changes.get("", ())]
    touched = [at for at, node in enumerate(run.after) if node.name in changes]
    near = {at + step for at in touched for step in range(-around, around + 1)}
    skipped = 0
    for at, node in enumerate(run.after):
        if at not in near:
            skipped += 1
            continue
        if skipped:
            lines.append(f"  … {skipped} nodes")
        skipped = 0
        told = changes.get(node.name, [])
        if not any(change.after for change in told):
            lines.append(f"  {_short(str(node))}")
        lines += [_line(change) for change in told]
    if skipped:
        lines.append(f"  … {skipped} nodes")
    return Code("\n".join(lines), language="text", title=f"the {run.graph} graph, {len(run.before)} → {len(run.after)}")


def _line(change: NodeChange) -> str:
    was = f"   was ({_short(change.before.arguments)})" if change.kind == "changed" and change.before else ""
    return f"{SIGNS[change.kind]} {_short(str(change.node))}{was}"


def _short(text: str) -> str:
    """Without what every node says, cut where a reader no longer reads."""
    text = text.replace("aten.", "").replace("prims.", "").replace(".default(", "(").replace("torch.", "")
    return text if len(text) <= 110 else f"{text[:108]} …"


def saved(report: PassReport) -> Drawing:
    """Bars of the bytes that the launches of forward and backward move, without the pass and with it."""
    codes = {"without": report.code_without, "with the pass": report.code_with}
    directions = list(dict.fromkeys(kernel.direction for code in codes.values() for kernel in code.kernels))
    series = [
        Series(way, directions, [sum(k.nbytes for k in code.kernels if k.direction == d) / 1e3 for d in directions])
        for way, code in codes.items()
    ]
    (few, fewer), (much, less) = report.kernels, report.nbytes
    told = f"{few} → {fewer} launches, {with_unit(much)} → {with_unit(less)}"
    return bars(
        series,
        value_title="read and written, kB",
        title=f"{report.name}: {told}.",
        provenance=evidence(report.code_with),
    )


def judgement(report: PassReport) -> Table:
    """One row a result or gradient: the same bits or not, how far apart, and each one's error against float64."""
    rows = [_judged(each) for each in report.judged]
    columns = ["", "same bits", "apart", "error without the pass", "error with the pass", "verdict"]
    return Table(columns, rows, f"{report.name} at {report.stage}: {report.verdict}", align="llrrrl")


def _judged(each: JudgedTensor) -> tuple[Cell, ...]:
    verdict = "same bits" if each.same_bits else "wrong" if each.is_wrong else "other bits"
    return each.name, each.same_bits, each.apart, each.without, each.with_pass, verdict
