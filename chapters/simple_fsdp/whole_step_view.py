"""The whole step as a reader sees it: what is in the graph, what the passes did to it, and who agrees with eager."""

from collections.abc import Iterable

from compile_lab.page.figures import Drawing, Series
from compile_lab.page.marks import bars
from compile_lab.page.tables import Table

from .whole_step import WRITE, WholeStep, updates_of
from .whole_step_judged import StepsJudged


def contents(step: WholeStep) -> Drawing:
    """Bars of the graph's operations by what they are for: the loss and its gradients, the update, its writes.

    The split is at the operations that lead to one parameter and its moments alone.
    """
    nodes = [node for node in step.module.graph.nodes if node.op == "call_function"]
    updates = updates_of(step.module.graph)
    writes = sum(node.target is WRITE for node in nodes)
    update = len(updates) - writes
    rows = [("forward, loss, backward", len(nodes) - update - writes), ("updates", update), ("written back", writes)]
    return bars(
        Series("operations", [name for name, _ in rows], [count for _, count in rows]),
        value_title="operations",
        title=f"One graph has {step.operations:,} operations.",
    )


def judgement(found: Iterable[StepsJudged]) -> Table:
    """One row a way to train: tensors with eager's bits, of how many, and the errors against float64."""
    rows = [(each.way, each.same_bits, each.tensors, f"{each.error:.1e}", f"{each.eager_error:.1e}") for each in found]
    return Table(["way", "as eager to the bit", "of", "error against float64", "eager's"], rows, align="lrrrr")
