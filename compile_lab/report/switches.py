"""Torch's switches for numbers and sizes that hang on values: is the forward one graph with them? It is tried.

Where a branch on emptiness is in the way (``if rows.numel() == 0: continue``), the forward is tried without it, too.
"""

import ast
import contextlib
import inspect
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from torch import nn

from .._torch.dynamo import dynamo_config
from ..dynamo.tracing import DynamoTrace, GraphBreak, trace
from .given import GivenModel

SWITCHES = ("capture_scalar_outputs", "capture_dynamic_output_shape_ops")
MOST_BRANCHES = 4


@dataclass(frozen=True)
class Switched:
    """The forward, traced with the ``switches`` that torch's hints name, and without the branches that were in the way
    of them; ``alone`` with the switches only."""

    switches: tuple[str, ...]
    alone: DynamoTrace
    branches: tuple[GraphBreak, ...]
    together: DynamoTrace


def switched(given: GivenModel, before: DynamoTrace) -> Switched | None:
    """What the switches make of the forward; None where none of its breaks hangs on them."""
    switches: tuple[str, ...] = ()
    alone = before
    while more := tuple(each for each in _hinted(alone) if each not in switches):
        switches += more
        alone = _traced(given, switches)
    if not switches:
        return None
    together = alone
    branches: list[GraphBreak] = []
    with contextlib.ExitStack() as left_out:
        while len(branches) < MOST_BRANCHES and (found := _a_branch(given.model, together)):
            branch, without = found
            left_out.enter_context(without)
            branches.append(branch)
            together = _traced(given, switches)
    return Switched(switches, alone, tuple(branches), together)


def _traced(given: GivenModel, switches: tuple[str, ...]) -> DynamoTrace:
    with dynamo_config.patch(dict.fromkeys(switches, True)):
        return trace(given.model, *given.args, **given.kwargs)


def _hinted(found: DynamoTrace) -> list[str]:
    said = " ".join(hint for each in found.breaks for hint in each.hints)
    return [each for each in SWITCHES if each in said]


def _a_branch(model: nn.Module, found: DynamoTrace) -> tuple[GraphBreak, contextlib.AbstractContextManager[Any]] | None:
    """A break at a branch on emptiness in a method of the model's, and a block in which the method is without it."""
    for each in found.breaks:
        for kind, name, method in _methods(model, each) if each.reason == "Data-dependent branching" else ():
            if rewritten := _without(method, each.line):
                return each, mock.patch.object(kind, name, rewritten)
    return None


def _methods(model: nn.Module, at: GraphBreak) -> Iterator[tuple[type, str, types.FunctionType]]:
    kinds = dict.fromkeys(kind for module in model.modules() for kind in type(module).__mro__)
    for kind in kinds:
        for name, method in vars(kind).items():
            if isinstance(method, types.FunctionType) and method.__code__.co_filename == at.file:
                lines = {line for _, _, line in method.__code__.co_lines() if line}
                if at.line in lines:
                    yield kind, name, method


def _without(method: types.FunctionType, line: int) -> types.FunctionType | None:
    """The method without the ``if`` of that line; None if that is more than a way around nothing."""
    try:
        lines, first = inspect.getsourcelines(method)
    except OSError:
        return None
    tree = ast.increment_lineno(ast.parse(textwrap.dedent("".join(lines))), first - 1)
    taken = _Taken(line)
    tree = ast.fix_missing_locations(taken.visit(tree))
    made = [each for each in compile(tree, method.__code__.co_filename, "exec").co_consts if inspect.iscode(each)]
    codes = [each for each in made if each.co_name == method.__name__ and not each.co_freevars]
    if not taken.taken or not codes or method.__closure__:
        return None
    rewritten = types.FunctionType(codes[-1], method.__globals__, method.__name__, method.__defaults__)
    rewritten.__kwdefaults__ = method.__kwdefaults__
    return rewritten


class _Taken(ast.NodeTransformer):
    """Takes away an ``if`` at a line that asks whether something is empty and, if so, only goes on or returns."""

    def __init__(self, line: int) -> None:
        self.line, self.taken = line, False

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        goes_around = all(isinstance(each, ast.Continue | ast.Pass | ast.Return) for each in node.body)
        if node.lineno != self.line or not goes_around or not _tests_emptiness(node.test):
            return node
        self.taken = True
        return node.orelse or ast.Pass()


def _tests_emptiness(test: ast.expr) -> bool:
    match test:
        case ast.UnaryOp(ast.Not()) | ast.Compare(_, [ast.Eq()], [ast.Constant(0)]):
            return True
        case ast.Compare(_, [ast.Lt()], [ast.Constant(1)]):
            return True
    return False
