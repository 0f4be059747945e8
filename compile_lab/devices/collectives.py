"""Which collectives does a step make, and what does a rank hold? Asked of the real program, without a cluster.

torch's *fake* process group has as many ranks as one likes, all but one of them imaginary: a collective returns at once
and moves nothing. The program builds its model and runs its step as on rank ``rank``; a dispatch mode writes down each
collective on its way. What the tensors hold is meaningless, what they weigh is not. With parameters that are fake too
(``without_memory``), billions of them cost nothing.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from .._torch.dispatcher import fake_tensors
from .._torch.distributed import fake_group, process_group
from ..doors import check_whole, door
from ..measure.timing import one_thread
from ..simulator.collectives import WORLD, Collective, Held
from ..tensors import nbytes, storage_nbytes, storage_of, tensors

MOST_DEVICES = 2**20
_KINDS = {
    "allreduce": "all_reduce",
    "all_reduce": "all_reduce",
    "allgather": "all_gather",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "shard_dim_alltoall": "all_to_all",
    "broadcast": "broadcast",
    "send": "send",
}
"""The part of an operator's name that tells what it is. Receiving is the other side of a send, and not counted."""


@door
@dataclass(frozen=True)
class Program:
    """A training step as one rank runs it: ``step()`` runs forward and backward on the sharded ``modules``.

    With the ``mesh``, collectives are told by its axes.

    >>> import torch
    >>> from compile_lab.devices import Program
    >>> model = torch.nn.Linear(4, 4)
    >>> Program(lambda: model(torch.ones(2, 4)).sum().backward(), [model]).step()
    >>> model.bias.grad
    tensor([2., 2., 2., 2.])
    """

    step: Callable[[], Any]
    modules: Sequence[nn.Module] = ()
    mesh: DeviceMesh | None = None


@door
def count(build: Callable[[], Program], devices: int, *, rank: int = 0, warm_up: int = 0) -> tuple[Collective, ...]:
    """The collectives of one step of the real program, on ``rank`` of ``devices`` imaginary ones.

    ``build()`` is called with the fake process group in place: it makes the mesh, shards the model, and returns the
    Program. ``warm_up`` as in ``counted``. A pipeline's stages agree on shapes by messages that the fake group does not
    carry: count it on real ranks, with ``counted``.

    Raises ValueError for a rank that is not there, RuntimeError if a real process group is up in this process.

    >>> import torch
    >>> from torch.distributed.fsdp import fully_shard
    >>> from compile_lab.devices import Program, count
    >>> def build():
    ...     model = fully_shard(torch.nn.Linear(8, 8), mesh=torch.distributed.init_device_mesh("cpu", (4,)))
    ...     return Program(lambda: model(torch.ones(2, 8)).sum().backward(), [model])
    >>> [str(each) for each in count(build, devices=4)]
    ['1 × all_gather over world (4 ranks), 288 bytes', '1 × reduce_scatter over world (4 ranks), 288 bytes']
    """
    with fake_process_group(devices, rank):
        return counted(build(), warm_up)


@door
def counted(program: Program, warm_up: int = 0, smallest: int = 2) -> tuple[Collective, ...]:
    """The collectives of one step on this rank of whatever process group is up, sorted by axis and kind.

    ``warm_up`` steps go before the one that counts: DDP forms its buckets anew after the first, and a pipeline's stages
    agree on shapes in it. Collectives of fewer than ``smallest`` numbers are left out: by default those of a single
    number, a loss that is averaged to be shown.

    >>> import torch
    >>> from compile_lab.devices import Program, counted, fake_process_group
    >>> with fake_process_group(devices=8):
    ...     found = counted(Program(lambda: torch.distributed.all_reduce(torch.ones(4))))
    >>> [(each.kind, each.payload_nbytes, each.sent_nbytes) for each in found]
    [('all_reduce', 16, 28)]
    """
    for _ in range(warm_up):
        program.step()
    with _CollectiveRecorder(program.mesh, smallest) as recorder:
        program.step()
    return recorder.found()


@door
def held(build: Callable[[], Program], devices: int, *, rank: int = 0) -> Held:
    """What ``rank`` of ``devices`` imaginary ones holds after a step of the real program and one of AdamW.

    Raises as ``count``.

    >>> import torch
    >>> from torch.distributed.fsdp import fully_shard
    >>> from compile_lab.devices import Program, held
    >>> def build():
    ...     model = fully_shard(torch.nn.Linear(8, 8), mesh=torch.distributed.init_device_mesh("cpu", (4,)))
    ...     return Program(lambda: model(torch.ones(2, 8)).sum().backward(), [model])
    >>> held(build, devices=4)
    Held(parameters=72, gradients=72, optimizer=144, activations=64)
    """
    with fake_process_group(devices, rank):
        return held_here(build())


@door
def held_here(program: Program) -> Held:
    """What this rank of whatever process group is up holds after a step and one of AdamW.

    >>> import torch
    >>> from compile_lab.devices import Program, held_here
    >>> model = torch.nn.Linear(4, 4)
    >>> held_here(Program(lambda: model(torch.ones(2, 4)).sum().backward(), [model]))
    Held(parameters=80, gradients=80, optimizer=160, activations=32)
    """
    parameters = [each for module in program.modules for each in module.parameters()]
    with _Saved() as saved:
        program.step()
    optimizer = torch.optim.AdamW(parameters, foreach=False)
    optimizer.step()
    state = [each for values in optimizer.state.values() for each in values.values() if _is_large(each)]
    gradients = [each.grad for each in parameters if each.grad is not None]
    return Held(_held_nbytes(parameters), _held_nbytes(gradients), _held_nbytes(state), saved.most)


@door
@contextlib.contextmanager
def fake_process_group(devices: int, rank: int = 0) -> Iterator[None]:
    """While the block runs, this process is ``rank`` of ``devices`` on the fake process group. Raises as ``count``.

    It computes on one thread, as a rank of ``ranks.run`` does: where other programs want the cores too, each of the
    many small operations would wait for its threads to get one.

    >>> import torch.distributed as dist
    >>> from compile_lab.devices import fake_process_group
    >>> with fake_process_group(devices=1024, rank=3):
    ...     print(dist.get_rank(), dist.get_world_size())
    3 1024
    """
    check_whole("devices", devices, 1, MOST_DEVICES)
    if not 0 <= rank < devices:
        raise ValueError(f"there is no rank {rank} of {devices} devices: ranks go from 0 to devices - 1")
    if dist.is_initialized():
        raise RuntimeError(
            "a process group is up in this process already, and a program cannot tell it from an imaginary one: call "
            "torch.distributed.destroy_process_group() first"
        )
    fake_group(devices, rank)
    try:
        with one_thread(), _ddp_without_futures():
            yield
    finally:
        dist.destroy_process_group()


def without_memory() -> contextlib.AbstractContextManager[Any]:
    """A mode under which new tensors have a shape and no memory.

    A model that is built under it can be sharded outside of it (a mesh reads real numbers); its step runs under it.
    """
    return fake_tensors(allow_real=True)


@contextlib.contextmanager
def _ddp_without_futures() -> Iterator[None]:
    """DDP asks a finished all-reduce for its result, of which the fake group has none (torch 2.11, 2.13).

    So each DDP that is made in the block gets a hook that makes the same all-reduce and answers with the bucket.
    """
    plain = DistributedDataParallel.__init__

    @functools.wraps(plain)
    def with_hook(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        self.register_comm_hook(self.process_group, _all_reduced)

    with mock.patch.object(DistributedDataParallel, "__init__", with_hook):
        yield


def _all_reduced(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    dist.all_reduce(bucket.buffer(), group=group)
    done: torch.futures.Future[Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class _CollectiveRecorder(TorchDispatchMode):
    """Writes down every collective: those of ``torch.distributed`` (c10d) and the functional ones of DTensor."""

    def __init__(self, mesh: DeviceMesh | None, smallest: int) -> None:
        super().__init__()
        self._smallest = smallest
        self._axes = {mesh.get_group(name).group_name: name for name in mesh.mesh_dim_names or ()} if mesh else {}
        self._rows: list[tuple[str, str, int, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented  # DTensor first, which becomes local operations and collectives
        result = func(*args, **(kwargs or {}))
        if func.namespace in ("c10d", "_c10d_functional", "_dtensor") and (kind := kind_of(func)):
            group = _group(args)
            payload = max(map(nbytes, (*args, result)))
            if _numbers((*args, result)) >= self._smallest:
                axis = self._axes.get(group.group_name, WORLD)
                self._rows.append((axis, kind, group.size(), payload))
        return result

    def found(self) -> tuple[Collective, ...]:
        kinds = sorted({row[:3] for row in self._rows})
        payloads = {each: [row[3] for row in self._rows if row[:3] == each] for each in kinds}
        return tuple(
            Collective(kind, axis, ranks, len(sizes), sum(sizes)) for (axis, kind, ranks), sizes in payloads.items()
        )


class _Saved:
    """Follows what autograd saves: ``most`` bytes at one time, each buffer once, and none of a parameter's."""

    def __init__(self) -> None:
        self._alive: dict[Any, int] = {}
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)
        self.most = 0

    def __enter__(self) -> "_Saved":
        self._hooks.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._hooks.__exit__(*raised)

    def _pack(self, tensor: Tensor) -> Tensor:
        local = _local(tensor)
        if not _is_parameter(local) and not _is_parameter(tensor) and tensor.dtype.is_floating_point:
            storage = local.untyped_storage()
            self._alive = {ref: size for ref, size in self._alive.items() if not ref.expired()}
            self._alive[StorageWeakRef(storage)] = storage.nbytes()
            self.most = max(self.most, sum(self._alive.values()))
        return tensor


def _is_parameter(tensor: Tensor) -> bool:
    base = tensor if tensor._base is None else tensor._base
    return isinstance(base, nn.Parameter) or (base.is_leaf and base.requires_grad)


def _local(tensor: Tensor) -> Tensor:
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def _held_nbytes(held: Sequence[Tensor]) -> int:
    """Bytes of the memory behind these tensors, each memory once; of a DTensor this rank's part."""
    return sum({storage_of(each): storage_nbytes(each) for each in map(_local, held)}.values())


def _is_large(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim > 0


def kind_of(func: Any) -> str | None:
    """The lab's name for what an operator sends; None for one that sends nothing of its own."""
    name = func.name().partition("::")[2].lstrip("_")
    found = [kind for part, kind in _KINDS.items() if name.startswith(part)]
    return found[0] if found else None


def _group(args: Sequence[Any]) -> dist.ProcessGroup:
    """The process group among a collective's arguments: c10d is handed the object, the functional ones its name."""
    for each in reversed(args):
        if isinstance(each, str) and each not in ("sum", "avg", "max", "min", "product"):
            return process_group(each)
        if isinstance(each, torch.ScriptObject) and "ProcessGroup" in str(each._type()):
            return dist.ProcessGroup.unbox(each)
    raise TypeError(f"no process group among the arguments of a collective: {args}")


def _numbers(values: Any) -> int:
    return max(each.numel() for each in tensors(values))
