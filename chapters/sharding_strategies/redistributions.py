"""Where does DTensor move a tensor without being told? The line, the operator, from where to where, and the bytes.

An operator's rule may want its arguments placed otherwise than they are. DTensor then moves them on the way, and
nothing in the program says so. `redistributions` lists these moves; under `forbidden` the first one is an error.
"""

import contextlib
import fnmatch
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DeviceMesh, distribute_tensor

from compile_lab._torch import distributed as private
from compile_lab._torch.distributed import forward_stack, is_in_backward, replace_redistributions
from compile_lab.devices import collectives
from compile_lab.devices.collectives import Program, counted
from compile_lab.devices.placements import placement
from compile_lab.doors import door
from compile_lab.source import Line, stack, users_line

_OWN = (__file__, str(private.__file__), collectives.__file__)
MEGATRON = {
    "*.qkv.*": "S(0)",
    "*.attention.out.weight": "S(1)",
    "*.mlp.up.*": "S(0)",
    "*.mlp.down.weight": "S(1)",
}
"""Tensor parallel of a block as Shoeybi et al. 2019 do it: what is not named is replicated."""


class ImplicitRedistribution(RuntimeError):
    """DTensor was about to move a tensor on its own, under `forbidden`; ``found`` says which."""

    def __init__(self, found: "Redistribution") -> None:
        super().__init__(_refusal(found))
        self.found = found


@door
@dataclass(frozen=True)
class Redistribution:
    """Equal moves: ``operator``'s tensor ``argument`` (from 0) goes from ``before`` to ``after``, ``count`` times.

    ``line`` is the reader's line that called the operator; in the ``backward``, that of the forward operation whose
    gradient it is. ``sent_nbytes`` is what a rank sends on a ring in all of them, by collectives of the ``kinds``;
    none where a rank cuts its part out of what it has.

    >>> from chapters.sharding_strategies.redistributions import Redistribution
    >>> from compile_lab.source import Line
    >>> Redistribution("aten._softmax.default", 0, "S(0)", "R", 64, ("all_gather",), False, Line("model.py", 67)).place
    'model.py, line 67'
    """

    operator: str
    argument: int
    before: str
    after: str
    sent_nbytes: int
    kinds: tuple[str, ...]
    backward: bool
    line: Line | None
    count: int = 1

    @property
    def place(self) -> str:
        return str(self.line) if self.line else "a line that torch did not keep"

    @property
    def text(self) -> str:
        return self.line.text if self.line else ""


@door
def redistributions(step: Callable[[], Any]) -> tuple[Redistribution, ...]:
    """The implicit redistributions of ``step()`` on this rank, equal ones together, in the order of their first.

    For what sends nothing ``sent_nbytes`` is 0. What the program redistributes itself, and what tensor-parallel
    styles do at a module's edge, is not among them. It works on whatever process group is up: in `ranks.run`, or
    under `fake_process_group`, where values mean nothing.

    >>> import torch.distributed.tensor as dt
    >>> from chapters.sharding_strategies.redistributions import redistributions
    >>> from compile_lab.devices.collectives import fake_process_group
    >>> with fake_process_group(2):
    ...     x = dt.ones(4, 8, device_mesh=dt.init_device_mesh("cpu", (2,)), placements=[dt.Shard(0)])
    ...     [(each.before, each.after, each.sent_nbytes) for each in redistributions(lambda: x.softmax(0))]
    [('S(0)', 'R', 64)]
    """
    found: list[Redistribution] = []

    def tell(operator: Any, argument: int, source: Any, target: Any, move: Callable[[], Any]) -> Any:
        moved: list[Any] = []
        sent = counted(Program(lambda: moved.append(move())), smallest=1)
        nbytes, kinds = sum(each.sent_nbytes for each in sent), tuple(each.kind for each in sent)
        found.append(_redistribution(operator, argument, source, target, nbytes, kinds))
        return moved[0]

    with replace_redistributions(tell), torch.autograd.set_detect_anomaly(True, check_nan=False):
        step()
    alike = Counter(found)
    return tuple(replace(each, count=n, sent_nbytes=n * each.sent_nbytes) for each, n in alike.items())


@door
@contextlib.contextmanager
def forbidden() -> Iterator[None]:
    """While the block runs, DTensor moves nothing that would be sent, unless the program says so.

    Raises ImplicitRedistribution, which names the line, the operator and the way out, before anything is sent. Moves
    that cost nothing, as a rank that cuts its part out of a replica, are no offence.

    A softmax along whole rows sends nothing, so it may run; one along the columns would raise:

    >>> import torch.distributed.tensor as dt
    >>> from chapters.sharding_strategies.redistributions import forbidden
    >>> from compile_lab.devices.collectives import fake_process_group
    >>> with fake_process_group(2), forbidden():
    ...     x = dt.ones(4, 8, device_mesh=dt.init_device_mesh("cpu", (2,)), placements=[dt.Shard(0)])
    ...     x.softmax(1).placements
    (Shard(dim=0),)
    """

    def tell(operator: Any, argument: int, source: Any, target: Any, move: Callable[[], Any]) -> Any:
        if any(map(_sends, source.placements, target.placements)):
            raise ImplicitRedistribution(_redistribution(operator, argument, source, target, 0, ()))
        return move()

    with replace_redistributions(tell), torch.autograd.set_detect_anomaly(True, check_nan=False):
        yield


@door
def distribute(model: nn.Module, mesh: DeviceMesh, plan: Mapping[str, str]) -> nn.Module:
    """The same model with DTensors for parameters, placed on the mesh's one axis by the first pattern that matches.

    ``plan`` maps patterns of names to placements, such as `MEGATRON`; what matches none is replicated. Each rank cuts
    its part out of its own copy, so all begin with the same seed. Raises ValueError for a pattern that matches
    nothing, or a mesh of more than one axis.

    >>> import torch
    >>> from chapters.sharding_strategies.redistributions import distribute
    >>> from compile_lab.devices.collectives import fake_process_group
    >>> with fake_process_group(2):
    ...     mesh = torch.distributed.init_device_mesh("cpu", (2,))
    ...     model = distribute(torch.nn.Linear(4, 8), mesh, {"weight": "S(0)"})
    ...     {name: (each.placements, each.to_local().shape) for name, each in model.named_parameters()}
    {'weight': ((Shard(dim=0),), torch.Size([4, 4])), 'bias': ((Replicate(),), torch.Size([8]))}
    """
    if mesh.ndim != 1:
        raise ValueError(
            f"a mesh of {mesh.ndim} axes: distribute places parameters along one; give it mesh['tp'] or such"
        )
    names = [name for name, _ in model.named_parameters()]
    if unused := [each for each in plan if not fnmatch.filter(names, each)]:
        raise ValueError(f"plan: no parameter is called {', '.join(unused)}; there are {', '.join(names[:4])}, …")
    for name, parameter in list(model.named_parameters()):
        word = next((plan[each] for each in plan if fnmatch.fnmatchcase(name, each)), "R")
        owner, _, last = name.rpartition(".")
        placed = distribute_tensor(parameter.detach(), mesh, [placement(word)], src_data_rank=None)
        setattr(model.get_submodule(owner), last, nn.Parameter(placed))
    return model


def _redistribution(
    operator: Any, argument: int, source: Any, target: Any, nbytes: int, kinds: tuple[str, ...]
) -> Redistribution:
    backward = is_in_backward()
    line = _forward_line() if backward else users_line(sys._getframe(), *_OWN)
    return Redistribution(str(operator), argument, _words(source), _words(target), nbytes, kinds, backward, line)


def _forward_line() -> Line | None:
    lines = [line for line in stack(forward_stack() or "") if line.is_users and line.file not in _OWN]
    return lines[-1] if lines else None


def _words(spec: Any) -> str:
    """``S(0)``; a partial sum of an embedding's rows, which torch writes with its shape, is ``P(sum)``, too."""
    return " ".join(f"P({each.reduce_op})" if each.is_partial() else str(each) for each in spec.placements)


def _sends(source: Any, target: Any) -> bool:
    return source != target and not source.is_replicate()


def _refusal(found: Redistribution) -> str:
    direction = "the backward of " if found.backward else ""
    wanted = [{"R": "Replicate()"}.get(word, _constructor(word)) for word in found.after.split(" ")]
    way_out = f".redistribute(placements=[{', '.join(wanted)}])"
    if found.backward:
        advice = "redistribute the forward's result at that line, or allow the backward: forbidden(backward=False)"
    else:
        advice = f"write it there, as x{way_out}, or place the tensor so from the beginning"
    return (
        f"{direction}{found.place}{': ' + found.text if found.text else ''}\n"
        f"{found.operator} would move its argument {found.argument} from {found.before} to {found.after}, and nothing "
        f"in the program says so. If that is meant, {advice}."
    )


def _constructor(word: str) -> str:
    if word.startswith("S("):
        return f"Shard{word[1:]}"
    return f"Partial({word[2:-1]!r})" if word.startswith("P(") else word
