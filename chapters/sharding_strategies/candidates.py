"""From a call on DTensors to the strategy it runs by: which were considered, at what price, and what is sent then.

DTensor decides operator by operator. It prices moving the inputs to where a strategy wants them, and nothing else: not
the work, not the memory, not what the next operator will want.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor, init_device_mesh
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from compile_lab._torch.distributed import watch_strategies
from compile_lab.devices.collectives import Program, counted, fake_process_group
from compile_lab.devices.dtensor import DTensorCall, check_layout
from compile_lab.devices.placements import parts, placement
from compile_lab.doors import check_whole, door
from compile_lab.simulator.collectives import Collective


@dataclass(frozen=True)
class Candidate:
    """A strategy for one operator: where it wants its inputs, where its result then is, by all axes of the mesh.

    ``cost_us`` is torch's price of moving the inputs there, in microseconds on the network that torch assumes;
    infinite where they cannot be moved so.
    """

    inputs: tuple[str, ...]
    output: str
    cost_us: float
    chosen: bool


@dataclass(frozen=True)
class Considered:
    """One operator's ``candidates``, cheapest first, for inputs that are placed as ``given``.

    Where it has no rule, ``traced`` are the operators of its decomposition, which DTensor followed on a mesh of one
    device to find the candidates.
    """

    operator: str
    given: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    traced: tuple[str, ...] = ()

    @property
    def chosen(self) -> Candidate:
        return next(each for each in self.candidates if each.chosen)


@dataclass(frozen=True)
class Choosing:
    """What DTensor considered for a call, operator by operator, what rank 0 then sent, where the results are."""

    operators: tuple[Considered, ...]
    sent: tuple[Collective, ...]
    out: tuple[str, ...]


@door
def candidates(
    function: Callable[..., Any],
    args: Sequence[Any],
    layout: Sequence[str],
    *,
    devices: int = 4,
) -> Choosing:
    """What DTensor considers for ``function(*args)`` on imaginary ``devices``; ``layout`` as in `ask`.

    No process is started and no GPU is needed; values mean nothing: only decisions and bytes are read. They are those
    of GPUs: between CPUs torch has no all-to-all, and sends an all-gather of which each rank keeps its part.

    Raises ValueError for a layout that does not fit, RuntimeError if a process group is up in this process, and what
    DTensor raises for the call.

    Rows of a times the whole of b: nothing must move, and the result lies in rows.

    >>> import torch
    >>> from chapters.sharding_strategies.candidates import candidates
    >>> choosing = candidates(torch.mm, (torch.ones(8, 4), torch.ones(4, 8)), ("S(0)", "R"))
    >>> choosing.operators[0].chosen, choosing.sent, choosing.out
    (Candidate(inputs=('S(0)', 'R'), output='S(0)', cost_us=0.0, chosen=True), (), ('S(0)',))
    """
    call = DTensorCall(function, tuple(args), tuple(layout))
    check_whole("devices", devices, 2, 1024)
    check_layout(call, devices)
    found, traced = [], []

    def tell(schema: Any, strategies: Sequence[Any], chosen: Any) -> None:
        if schema.args_spec and schema.args_spec[0].mesh.size() != devices:
            traced.append(str(schema.op))
            return
        found.append(_considered(schema, strategies, chosen, tuple(dict.fromkeys(traced))))
        traced.clear()

    with fake_process_group(devices):
        mesh = init_device_mesh("cuda", (devices,))
        leaves, tree = tree_flatten(call.args)
        places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        for index, word in zip(places, layout, strict=True):
            whole = leaves[index]
            leaves[index] = DTensor.from_local(
                parts(whole, word, devices)[0].to("meta"),
                mesh,
                [placement(word)],
                run_check=False,
                shape=whole.shape,
                stride=whole.contiguous().stride(),
            )
        placed = tree_unflatten(leaves, tree)
        made: list[Any] = []
        with watch_strategies(tell):
            sent = counted(Program(lambda: made.append(function(*placed))), smallest=1)
    out = [_words(each) for each in tree_leaves(made) if isinstance(each, DTensor)]
    return Choosing(tuple(found), sent, tuple(out))


def _considered(schema: Any, strategies: Sequence[Any], chosen: Any, traced: tuple[str, ...]) -> Considered:
    told = [_candidate(each, each is chosen) for each in strategies]
    cheapest_first = sorted(told, key=lambda each: (each.cost_us, not each.chosen))
    return Considered(str(schema.op), tuple(map(_words, schema.args_spec)), tuple(cheapest_first), traced)


def _candidate(strategy: Any, chosen: bool) -> Candidate:
    outputs = strategy.output_specs if isinstance(strategy.output_specs, list | tuple) else [strategy.output_specs]
    inputs = strategy.input_specs if strategy.input_specs is not None else outputs
    costs = [float(cost) for each in strategy.redistribute_cost or () for cost in each]
    words = " and ".join(dict.fromkeys(_words(each) for each in outputs if each is not None))
    return Candidate(tuple(map(_words, inputs)), words, sum(costs) if costs else math.nan, chosen)


def _words(spec: Any) -> str:
    """``S(0)``, or ``S(0) R`` on a mesh of two axes."""
    return " ".join(map(str, spec.placements))
