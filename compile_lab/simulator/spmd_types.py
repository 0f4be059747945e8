"""Types for values on many ranks: a gradient that nobody adds up is found before anything runs.

A value has one of four types along an axis of ranks, and its gradient another one:

    R  replicated: all ranks hold the same; each has a part of its gradient       gradient P
    I  invariant: all ranks hold the same, and the same gradient                  gradient I
    V  varying: each rank holds its own, a shard; so is the gradient              gradient V
    P  partial: the sum over the ranks is meant; the gradient is the whole one    gradient R

The types and rules are those of spmd_types' "local SPMD" (github.com/meta-pytorch/spmd_types, docs/local_spmd_types.md,
version 0.3.1); this is the idea in few lines, for one axis, with the operations of a small network.
"""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from ..doors import door, shown
from ..source import Line, users_line

R, I, V, P = "R", "I", "V", "P"  # noqa: E741 - the field's own names
GRADIENT = {R: P, I: I, V: V, P: R}
NAMES = {R: "replicated", I: "invariant", V: "varying", P: "partial"}
MOVES = {
    ("replicate", I, R): (None, "all_reduce"),
    ("partial", V, P): (None, None),
    ("all_reduce", P, R): ("all_reduce", "all_reduce"),
    ("all_reduce", P, I): ("all_reduce", None),
    ("all_gather", V, R): ("all_gather", "reduce_scatter"),
    ("all_gather", V, I): ("all_gather", None),
    ("reduce_scatter", P, V): ("reduce_scatter", "all_gather"),
}
"""An operation from one type to another: what it sends forward, and what its backward sends."""


class WrongType(TypeError):
    """A program whose gradients, or values, would be wrong on several ranks; ``line`` is where."""

    def __init__(self, line: Line | None, message: str) -> None:
        super().__init__(f"{line}: {line.text}\n{message}" if line else message)
        self.line = line


@dataclass(frozen=True)
class TypedStep:
    """One operation: its line, the types that go in and come out, and what is sent, forward and backward."""

    line: Line | None
    operation: str
    inputs: tuple[str, ...]
    output: str
    forward: str | None = None
    backward: str | None = None


@dataclass(frozen=True)
class Typed:
    """What stands for a tensor while types are checked: its type, and the steps that made everything so far."""

    kind: str
    steps: list[TypedStep] = field(repr=False, compare=False, default_factory=list)

    def __matmul__(self, other: "Typed") -> "Typed":
        return _product("@", self, other)

    def __mul__(self, other: "Typed") -> "Typed":
        return _product("*", self, other)

    def __add__(self, other: "Typed") -> "Typed":
        return _step("+", (self, other), _mixed("+", self, other, {(P, P): P}))

    def __sub__(self, other: "Typed") -> "Typed":
        return _step("-", (self, other), _mixed("-", self, other, {(P, P): P}))


class Types:
    """The operations of a program, on types. `devices.typed_ranks` has the same ones on tensors."""

    def gelu(self, x: Typed) -> Typed:
        return _bent("gelu", x)

    def mean_of_squares(self, x: Typed) -> Typed:
        return _bent("mean_of_squares", x)

    def replicate(self, x: Typed) -> Typed:
        return _moved("replicate", x, R)

    def partial(self, x: Typed) -> Typed:
        return _moved("partial", x, P)

    def all_reduce(self, x: Typed, to: str = R) -> Typed:
        return _moved("all_reduce", x, to)

    def all_gather(self, x: Typed, to: str = R) -> Typed:
        return _moved("all_gather", x, to)

    def reduce_scatter(self, x: Typed) -> Typed:
        return _moved("reduce_scatter", x, V)


@door
def check(program: Callable[..., object], **types: str) -> tuple[TypedStep, ...]:
    """The steps of ``program(operations, **values)`` with their types, if its loss and all gradients are right.

    ``types`` has one for each value: V for a shard, I for what all ranks hold alike and train alike. Nothing is
    computed, no process is started.

    Raises WrongType, which names the line, the rule and the way out; ValueError for a type that is none, for a value R
    or P, and for names that are not the program's.

    >>> from compile_lab.simulator.spmd_types import check
    >>> program = lambda ops, x, w: ops.all_reduce(ops.partial(ops.mean_of_squares(x @ ops.replicate(w))), "I")
    >>> [(step.operation, step.backward) for step in check(program, x="V", w="I")]
    [('replicate', 'all_reduce'), ('@', None), ('mean_of_squares', None), ('partial', None), ('all_reduce', None)]
    """
    wanted = list(inspect.signature(program).parameters)[1:]
    if set(wanted) != set(types):
        raise ValueError(f"the program's values are {', '.join(wanted)}; the types are of {', '.join(types)}")
    for name, kind in types.items():
        if kind not in (I, V):
            why = "its gradient would be a part on each rank" if kind == R else "no rank holds its value"
            said = f"{name} is {NAMES[kind]}, and {why}: " if kind in GRADIENT else f"{name} is {shown(kind)}: "
            raise ValueError(f"{said}give I for what all ranks hold alike, V for a shard")
    steps: list[TypedStep] = []
    loss = program(Types(), **{name: Typed(kind, steps) for name, kind in types.items()})
    if not isinstance(loss, Typed) or loss.kind != I:
        got = f"{loss.kind}, {NAMES[loss.kind]}" if isinstance(loss, Typed) else shown(loss)
        last = steps[-1].line if steps else None
        raise WrongType(last, f"the loss is {got}, and it must be I: the same on all ranks. {_way_out(loss)}")
    return tuple(steps)


def _product(sign: str, left: Typed, right: Typed) -> Typed:
    """Linear in each factor: a partial sum times what all ranks hold alike is a partial sum."""
    return _step(sign, (left, right), _mixed(sign, left, right, {(P, R): P, (R, P): P}))


def _mixed(sign: str, left: Typed, right: Typed, linear: dict[tuple[str, str], str]) -> str:
    kinds = left.kind, right.kind
    if kinds in linear:
        return linear[kinds]
    if P in kinds:
        raise WrongType(_line(), f"{kinds[0]} {sign} {kinds[1]}: a partial sum goes into it unsummed. {_way_out(P)}")
    if len(set(kinds)) == 1:
        return left.kind
    if I in kinds:
        raise WrongType(
            _line(),
            f"{kinds[0]} {sign} {kinds[1]}: each rank's gradient of the I value is a part of it, and nothing adds the "
            "parts up. Way out: replicate() the I value first; it sends nothing forward, and all-reduces its gradient",
        )
    return V


def _bent(name: str, x: Typed) -> Typed:
    if x.kind == P:
        raise WrongType(_line(), f"{name}(P): it bends, so {name} of a sum is no sum of {name}s. {_way_out(P)}")
    return _step(name, (x,), x.kind)


def _moved(name: str, x: Typed, to: str) -> Typed:
    if (name, x.kind, to) not in MOVES:
        ways = " or ".join(f"{a} to {b}" for op, a, b in MOVES if op == name)
        hint = "; a shard of terms becomes a partial sum by partial()" if x.kind == V and ways.startswith("P") else ""
        raise WrongType(_line(), f"{name} of {x.kind} to {to}: it goes from {ways}{hint}")
    return _step(name, (x,), to, *MOVES[name, x.kind, to])


def _way_out(of: object) -> str:
    kind = of.kind if isinstance(of, Typed) else of
    ways = {
        P: "Way out: all_reduce() or reduce_scatter() it first",
        V: "Way out: all_reduce(partial(loss), to=I)",
        R: "Way out: all_reduce(…, to=I) in the place of to=R",
    }
    return ways.get(kind, "")


def _step(name: str, inputs: tuple[Typed, ...], kind: str, *sent: str | None) -> Typed:
    steps = inputs[0].steps
    steps.append(TypedStep(_line(), name, tuple(each.kind for each in inputs), kind, *sent))
    return Typed(kind, steps)


def _line() -> Line | None:
    return users_line(sys._getframe(), __file__)
