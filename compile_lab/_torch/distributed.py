"""Private names of torch.distributed: the fake group, pipeline schedules, how DTensor chooses a strategy."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch


def fake_group(devices: int, rank: int) -> None:
    """Initialise torch.distributed with a group whose collectives return at once and move nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=rank, world_size=devices, store=FakeStore())


def process_group(name: str) -> "torch.distributed.ProcessGroup":
    """The process group of that name, as a functional collective is handed it."""
    # torch 2.13 has a type of its own for such a name, 2.11 has none.
    return torch.distributed.distributed_c10d._resolve_process_group(name)  # type: ignore[arg-type]  # a str to both


def one_gloo_thread() -> None:
    """From now on each gloo group of this process has one thread that carries out its collectives, instead of two.

    Both note in one string of the group which collective they have completed, and without a lock (``pgStatus_`` in
    ``runLoop`` of torch's ProcessGroupGloo.cpp; seen in torch 2.13.0, and 2.14.1 has the same code). A name of more
    than 15 letters lies on the heap, and two threads at once free it twice: the rank dies, mostly later, of "malloc():
    unaligned tcache chunk detected". ALLGATHER_COALESCED is such a name, and every all-gather of a compiled step has
    it. ``dist.new_group`` takes no number of threads for gloo: its ``pg_options`` are ignored.
    """
    from torch.distributed import ProcessGroupGloo

    plain = ProcessGroupGloo.__init__
    if hasattr(plain, "__wrapped__"):  # a second call
        return

    @functools.wraps(plain)
    def one_thread(self: Any, store: Any, rank: int, size: int, *given: Any, timeout: Any = None, **more: Any) -> None:
        # More is what later releases have added: 2.14 says `enable_reconfigure=False`.
        if given or any(more.values()):
            more |= {"timeout": timeout} if timeout else {}
            plain(self, store, rank, size, *given, **more)
            return
        options = ProcessGroupGloo._Options()  # type: ignore[attr-defined]  # torch's stubs leave it out
        interfaces = [name for name in os.environ.get("GLOO_SOCKET_IFNAME", "").split(",") if name]
        options._devices = [ProcessGroupGloo.create_device(interface=name) for name in interfaces] or [
            ProcessGroupGloo.create_default_device()
        ]
        options._timeout = timeout or torch.distributed.default_pg_timeout
        options._threads = 1
        plain(self, store, rank, size, options)

    ProcessGroupGloo.__init__ = one_thread  # type: ignore[method-assign]  # in its place, on purpose


_PIPELINE_KINDS = {"FORWARD": "F", "FULL_BACKWARD": "B", "BACKWARD_INPUT": "I", "BACKWARD_WEIGHT": "W"}


def pipeline_orders(schedule: str, ranks: int, microbatches: int) -> list[list[tuple[str, int, int]]]:
    """What each rank of a pipeline computes under one of torch's schedules, in order: kind, stage, micro-batch.

    Kinds are F, B (whole backward), I and W (its two halves). Two stages a rank, where the schedule takes several; a
    forward and a backward that overlap (DualPipeV) come one after the other. Raises what torch raises for sizes that a
    schedule cannot run. Imported on first use.
    """
    kinds = _PIPELINE_KINDS
    orders = _pipeline_actions(schedule, ranks, microbatches)
    return [[(kinds[name], stage, m) for name, stage, m in order if name in kinds] for order in orders]


def _pipeline_actions(
    schedule: str, ranks: int, microbatches: int, **options: bool
) -> list[list[tuple[str, int, int]]]:
    """Each rank's actions in torch's own names, one that is made of two as these two: name, stage, micro-batch.
    Those of no micro-batch are left out.
    """
    from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops

    orders = get_schedule_ops(schedule, ranks, microbatches, **options)
    parts = [[part for action in order if action for part in action.sub_actions or (action,)] for order in orders]
    return [
        [(each.computation_type.name, each.stage_index, m) for each in of if (m := each.microbatch_index) is not None]
        for of in parts
    ]


def pipeline_pairs(schedule: str, ranks: int, microbatches: int) -> set[tuple[str, int, int]]:
    """The actions of ``pipeline_orders`` that torch makes one of with the next, as DualPipeV does: nothing is sent
    between the two, so what the first made goes out when the second is done.
    """
    from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops

    actions = [action for order in get_schedule_ops(schedule, ranks, microbatches) for action in order if action]
    firsts = [action.sub_actions[0] for action in actions if action.sub_actions]
    kinds = _PIPELINE_KINDS
    return {
        (kinds[part.computation_type.name], part.stage_index, m)
        for part in firsts
        if (m := part.microbatch_index) is not None
    }


def pipeline_receives(schedule: str, ranks: int, microbatches: int) -> list[list[tuple[bool, str, int, int]]]:
    """``pipeline_orders`` with the receives in between, where torch's runtime posts them: is it one, and then what it
    waits for, the action of a neighbouring stage (F, or B for whichever gradient of the input). Several stages a rank.
    """
    known = {name: (False, kind, 0) for name, kind in _PIPELINE_KINDS.items()}
    known |= {"RECV_F": (True, "F", -1), "RECV_B": (True, "B", 1)}
    orders = []
    for order in _pipeline_actions(schedule, ranks, microbatches, with_comms=True):
        seen = [(*known[name], stage, m) for name, stage, m in order if name in known]
        orders.append([(receives, kind, stage + further, m) for receives, kind, further, stage, m in seen])
    return orders


def pipeline_sends_to_itself() -> bool:
    """True where a rank with two neighbouring stages sends a message to itself before the first step (torch 2.11)."""
    from torch.distributed.pipelining import PipelineStage

    sends, votes = (hasattr(PipelineStage, name) for name in ("_get_init_p2p_neighbors_ops", "_warmup_forward_vote"))
    return sends and not votes  # torch 2.13 votes instead, and torch 2.15 has neither: its vote is an all-reduce


@contextlib.contextmanager
def watch_strategies(tell: Callable[[Any, Any, Any], None]) -> Iterator[None]:
    """While the block runs, ``tell(schema, strategies, chosen)`` is called whenever DTensor chooses.

    ``schema`` is the call (``op``, ``args_spec``), a strategy has ``input_specs``, ``output_specs`` and
    ``redistribute_cost``, and ``chosen`` is one of them. What DTensor has decided before is forgotten: it chooses anew.
    """
    from unittest import mock  # here: a page that imports this file has no need of it

    from torch.distributed.tensor import _sharding_prop

    plain = _sharding_prop._select_min_cost_strategy

    def telling(strategy: Any, schema: Any = None) -> Any:
        chosen = plain(strategy, schema)
        if schema is not None:
            tell(schema, strategy.strategies, chosen)
        return chosen

    forget_strategies()
    with mock.patch.object(_sharding_prop, "_select_min_cost_strategy", telling):
        yield


def forget_strategies() -> None:
    """DTensor decides anew for each call: after a rule was registered, which its cache of decisions does not know."""
    from torch.distributed.tensor.debug import _clear_sharding_prop_cache

    _clear_sharding_prop_cache()


@contextlib.contextmanager
def replace_redistributions(tell: Callable[[Any, int, Any, Any, Callable[[], Any]], Any]) -> Iterator[None]:
    """While the block runs, ``tell(operator, argument, source, target, move)`` stands for each redistribution that
    DTensor makes of an operator's argument by itself.

    ``source`` and ``target`` are specs (``placements``, ``mesh``, ``shape``); ``move()`` does it, and what it returns
    is to be returned. What a program redistributes itself is not told.
    """
    from unittest import mock

    from torch.distributed.tensor import _dispatch

    dispatcher = _dispatch.OpDispatcher
    plain, plain_move = dispatcher.redistribute_local_args, _dispatch.redistribute_local_tensor
    now: list[tuple[Any, list[int]]] = []

    def for_operator(op_info: Any, suggested: Any, use_values: bool) -> None:
        wanted = torch.utils._pytree.tree_leaves(suggested.args_schema)
        pairs = zip(op_info.flat_args_schema, wanted, strict=False)
        moved = [at for at, (have, want) in enumerate(pairs) if hasattr(have, "placements") and have != want]
        now.append((suggested.op, moved))
        try:
            plain(op_info, suggested, use_values)
        finally:
            now.pop()

    def for_argument(local: Any, source: Any, target: Any) -> Any:
        operator, moved = now[-1]
        return tell(operator, moved.pop(0), source, target, lambda: plain_move(local, source, target))

    with (
        mock.patch.object(dispatcher, "redistribute_local_args", staticmethod(for_operator)),
        mock.patch.object(_dispatch, "redistribute_local_tensor", for_argument),
    ):
        yield


def forward_stack() -> str | None:
    """Inside a backward under anomaly mode: the Python stack of the forward operation whose gradient is computed."""
    node = torch._C._current_autograd_node()
    # A dict; torch's stubs have it as a method.
    stack = node.metadata.get("traceback_") if node is not None else None  # type: ignore[attr-defined]  # see above
    return "".join(stack) if stack else None


def is_in_backward() -> bool:
    """Is autograd's engine at work on this thread?"""
    return torch._C._current_autograd_node() is not None


def flight_record(stacks: bool = True) -> bytes:
    """The flight recorder's ring of this process's last collectives, as torch dumps it: a pickle. gloo fills it, too.

    It has ``entries``; one that has come to its end is ``retired``. Sends and receives over gloo are not in it.
    """
    from torch._C._distributed_c10d import _dump_fr_trace  # type: ignore[attr-defined]  # torch's stubs leave it out

    return _dump_fr_trace(includeCollectives=True, includeStackTraces=stacks, onlyActive=False)


def group_members() -> dict[str, list[int]]:
    """The ranks of each process group that this rank has made, by the group's name, in the flight recorder's words."""
    world = torch.distributed.distributed_c10d._world
    return {name: sorted(world.pg_group_ranks[group]) for group, name in world.pg_names.items()}
