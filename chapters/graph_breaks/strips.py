"""A function as the strip of what it did, in order, cut where its graph broke: which part ran in which graph?"""

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from compile_lab.dynamo.tracing import DynamoTrace, trace

RESUMED = "torch_dynamo_resume_in_"
"""How torch names the function that goes on after a break."""


@dataclass(frozen=True)
class Piece:
    """What ran in one go: the operations of one graph, or what Python did by itself."""

    graph: int | None
    """The graph's number; None for what Python ran."""
    ops: tuple[str, ...]
    frame: str
    """The user's function that it belongs to; empty where nothing was compiled."""


@dataclass(frozen=True)
class Strip:
    """A function's pieces in the order in which they ran, and the trace that found them."""

    pieces: tuple[Piece, ...]
    found: DynamoTrace

    @property
    def graphs(self) -> int:
        """How many graphs were made."""
        return len(self.found.graphs)

    @property
    def breaks(self) -> int:
        """How many lines broke the graph."""
        return len(self.found.breaks)

    @property
    def eager_ops(self) -> int:
        """How many tensor operations are in no graph."""
        return sum(op != "print" for piece in self.pieces if piece.graph is None for op in piece.ops)


class _Called(TorchFunctionMode):
    """Notes the name of each operation that Python calls."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.__name__)
        return func(*args, **kwargs or {})


class _Printed(io.StringIO):
    """Notes each print, one for each end of a line."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def write(self, text: str) -> int:
        self.names += ["print"] * text.count("\n")
        return len(text)


def strip(fn: Callable[[torch.Tensor], Any], x: torch.Tensor) -> Strip:
    """What ``fn(x)`` does, in order, and the graphs that hold it: once eagerly, once traced.

    Counted are operations on tensors and prints. Where the graphs hold fewer operations than ran, all of them are
    taken for Python's: this is for functions that are split, or left to Python as a whole.
    """
    names: list[str] = []
    with contextlib.redirect_stdout(_Printed(names)), _Called(names):
        fn(x)
    found = trace(fn, x)
    return Strip(tuple(_pieces(names, found)), found)


def prints_in_places(x: torch.Tensor) -> dict[str, Strip]:
    """The same four operations on ``x`` with no print, one in the middle, in a helper, and in a loop."""

    def whole(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).exp().sqrt() + 1

    def prints(x: torch.Tensor) -> torch.Tensor:
        x = (x * 2).exp()
        print("here")
        return x.sqrt() + 1

    def helper(x: torch.Tensor) -> torch.Tensor:
        x = x.exp()
        print("here")
        return x.sqrt()

    def calls_helper(x: torch.Tensor) -> torch.Tensor:
        return helper(x * 2) + 1

    def loops(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        for _ in range(2):
            x = x.exp()
            print("here")
        return x.sqrt() + 1

    functions = {"no print": whole, "one print": prints, "in a helper": calls_helper, "in a loop": loops}
    return {name: strip(fn, x) for name, fn in functions.items()}


def prints_at_depths(x: torch.Tensor) -> dict[str, Strip]:
    """A print in a function, one call below it, and three; with an operation before and after each call."""

    def innermost(x: torch.Tensor) -> torch.Tensor:
        x = x.exp()
        print("here")
        return x.sqrt()

    def first(x: torch.Tensor) -> torch.Tensor:
        return innermost(x * 2) + 1

    def second(x: torch.Tensor) -> torch.Tensor:
        return first(x.sin()) * 3

    def third(x: torch.Tensor) -> torch.Tensor:
        return second(x.cos()) - 1

    functions = {"in the function": innermost, "one call deep": first, "three deep": third}
    return {name: strip(fn, x) for name, fn in functions.items()}


def _pieces(names: list[str], found: DynamoTrace) -> Iterator[Piece]:
    if found.ops != sum(name != "print" for name in names):
        yield Piece(None, tuple(names), "")
        return
    left = list(names)
    for at, graph in enumerate(found.graphs):
        ops: list[str] = []
        while len(ops) < graph.ops:
            name = left.pop(0)
            if name == "print":
                yield Piece(None, (name,), "")
            else:
                ops.append(name)
        yield Piece(at, tuple(ops), graph.function.removeprefix(RESUMED).partition("_at_")[0])
    if left:
        yield Piece(None, tuple(left), "")
