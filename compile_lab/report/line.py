"""What becomes of one line of Python? ``follow(module, *args)`` answers for each line, through every stage.

The stages are seen by three instruments: Dynamo's graph by ``dynamo.trace``, the joint graph and its two halves by
``aot.training_graphs``, the kernels by ``inductor.generated_code``. What joins them is the source line that torch
notes on every node, the backward ones included.
"""

import linecache
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..aot.nodes import Graph, Node
from ..aot.saved import Recomputed, SavedTensor
from ..aot.training import training_graphs
from ..doors import PrintedRepr, door
from ..dynamo.tracing import trace
from ..inductor.generated import GeneratedCode, generated_code
from ..inductor.records import Kernel
from ..source import Line, stack
from ..virtual_gpu.chips import chip as known_chip


@dataclass(frozen=True, repr=False)
class Followed(PrintedRepr):
    """One line of Python, and what it became: graph nodes by name and operation, tensors, kernels."""

    line: Line
    captured: tuple[str, ...]
    """Dynamo's nodes: ``layer_norm = layer_norm(x, …)``."""
    forward: tuple[Node, ...]
    backward: tuple[Node, ...]
    """The joint graph's nodes, by the direction in which they were traced."""
    saved: tuple[SavedTensor, ...]
    recomputed: tuple[Recomputed, ...]
    kernels: tuple[Kernel, ...]

    def __str__(self) -> str:
        counts = (
            f"{len(self.captured)} captured, {len(self.forward)} forward, {len(self.backward)} backward nodes, "
            f"{len(self.saved)} saved, {len(self.recomputed)} recomputed, {len(self.kernels)} launches"
        )
        return f"{self.line}: {self.line.text}\n    {counts}"


@dataclass(frozen=True, repr=False)
class Trail(PrintedRepr):
    """All lines of a function or module that became tensor operations, in the order of the source."""

    lines: tuple[Followed, ...]
    code: GeneratedCode = field(repr=False)
    captured: tuple[str, ...] = field(default=(), repr=False)
    """Dynamo's graphs as readable Python."""
    joint: tuple[Graph, ...] = field(default=(), repr=False)
    """AOTAutograd's joint graphs."""

    def __getitem__(self, text: str) -> Followed:
        """The one line that contains ``text``; KeyError, with the lines there are, if none or several do."""
        found = [each for each in self.lines if text in each.line.text]
        if len(found) != 1:
            known = "\n".join(each.line.text for each in self.lines)
            raise KeyError(f"{len(found)} lines contain {text!r}; the lines are\n{known}")
        return found[0]

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines))


@door
def follow(
    fn: Callable[..., Any], *args: Any, chip: str | None = "H200", code: GeneratedCode | None = None, **kwargs: Any
) -> Trail:
    """Each source line of ``fn(*args, **kwargs)`` with its captured, forward and backward nodes, tensors and kernels.

    ``fn`` is any function or module of which something requires grad; ``chip`` as for ``generated_code``, whose answer
    for the same call may be given as ``code`` to save its making. A node
    belongs to the innermost of the user's lines on its stack. Raises what the three instruments raise; of a function
    that breaks, the lines of all its graphs are followed.

    >>> import torch
    >>> from compile_lab.report import follow
    >>> trail = follow(lambda x, w: x @ w, torch.ones(2, 4), torch.ones(4, 4, requires_grad=True), chip=None)
    >>> (line,) = trail.lines
    >>> [node.op for node in (*line.forward, *line.backward)], [kernel.name for kernel in line.kernels]
    (['aten.mm', 'aten.permute', 'aten.mm'], ['extern_kernels.mm', 'extern_kernels.mm'])
    """
    if chip is not None:
        known_chip(chip)  # raises for a name that is not known, before anything runs
    seen = trace(fn, *args, **kwargs).graphs
    captured = _captured(seen)
    graphs = training_graphs(fn, *args, **kwargs).each
    code = code or generated_code(fn, *args, chip=chip, **kwargs)
    joint = [node for each in graphs for node in each.joint.nodes if node.is_op and node.source]
    known = [*captured, *(node.source for node in joint), *(line for k in code.kernels for line in k.lines)]
    places = {(line.file, line.line) for line in known if line}
    lines = [Line(file, at, text=linecache.getline(file, at).strip()) for file, at in sorted(places)]
    followed = tuple(_followed(line, captured, joint, graphs, code) for line in lines)
    return Trail(followed, code, tuple(graph.code for graph in seen), tuple(each.joint for each in graphs))


def _followed(line: Line, captured: dict, joint: list[Node], graphs: Any, code: GeneratedCode) -> Followed:
    def here(found: Any) -> bool:
        return found.source is not None and line.is_same_place(found.source)

    nodes = list(filter(here, joint))
    return Followed(
        line,
        tuple(text for other, texts in captured.items() if line.is_same_place(other) for text in texts),
        tuple(node for node in nodes if node.direction == "forward"),
        tuple(node for node in nodes if node.direction == "backward"),
        tuple(saved for each in graphs for saved in each.saved if here(saved)),
        tuple(again for each in graphs for again in each.recomputed if here(again)),
        tuple(kernel for kernel in code.kernels if any(map(line.is_same_place, kernel.lines))),
    )


def _captured(graphs: Any) -> dict[Line, list[str]]:
    """Dynamo's calls by the user's innermost line."""
    found: dict[Line, list[str]] = {}
    for graph in graphs:
        for node in graph.module.graph.nodes:
            lines = [line for line in stack(node.meta.get("stack_trace") or "") if line.is_users]
            if node.op.startswith("call") and lines:
                called = getattr(node.target, "__name__", node.target)
                found.setdefault(lines[-1], []).append(f"{node.name} = {called}")
    return found
