"""A wire that is made slow: a process group whose collectives take as long as they are told to."""

import functools
import queue
import threading
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..doors import door


class _Sent(dist.Work):
    """A collective on its way over a throttled wire."""

    def __init__(self, future: torch.futures.Future) -> None:
        super().__init__()
        self._future = future

    def wait(self, timeout: Any = None) -> bool:
        self._future.wait()
        return True

    def get_future(self) -> torch.futures.Future:
        return self._future


class ThrottledGroup(dist.ProcessGroup):
    """The default group's collectives, one after the other on a wire of `bytes_per_s`. Made by `throttled`.

    Each is carried out by the group's own backend, then the wire stays taken until its bytes over the bandwidth have
    passed. The bytes are those of the larger side: what an all-gather gives, what a reduce-scatter takes.
    """

    def __init__(self, inner: dist.ProcessGroup, bytes_per_s: float) -> None:
        super().__init__(inner.rank(), inner.size())  # type: ignore[call-arg]  # an overload that torch's stubs leave out
        self.sent: list[tuple[str, int, int, int]] = []
        """Name, start and end by ``time.time_ns``, bytes: what `overlap.wire_events` takes."""
        self._inner, self._bytes_per_s, self._name = inner, bytes_per_s, ""
        self._queue: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._carry, daemon=True).start()

    def _carry(self) -> None:
        while True:
            name, large, work, outputs, future, _ = self._queue.get()  # what is given lives until the next is taken
            nbytes = sum(tensor.nbytes for tensor in large)
            start = time.time_ns()
            work.wait()
            time.sleep(max(0.0, nbytes / self._bytes_per_s - (time.time_ns() - start) / 1e9))
            self.sent.append((name, start, time.time_ns(), nbytes))
            future.set_result(outputs)

    def _send(
        self, name: str, large: list[Tensor], work: dist.Work, outputs: list[Tensor], inputs: list[Tensor]
    ) -> _Sent:
        """Until the wire has carried it, this group holds what the backend reads and writes, whoever else lets go."""
        future: torch.futures.Future = torch.futures.Future()
        self._queue.put((name, large, work, outputs, future, inputs))
        return _Sent(future)

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> _Sent:  # type: ignore[override]  # as torch calls it
        work = self._inner.allreduce(tensors, opts or dist.AllreduceOptions())
        return self._send("all_reduce", tensors, work, tensors, tensors)

    def allgather_into_tensor_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], *opts: Any) -> _Sent:
        work = self._inner.allgather_into_tensor_coalesced(outputs, inputs, *opts)
        return self._send("all_gather", outputs, work, outputs, inputs)

    def _allgather_base(self, output: Tensor, given: Tensor, *opts: Any) -> _Sent:
        return self.allgather_into_tensor_coalesced([output], [given])

    def reduce_scatter_tensor_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], *opts: Any) -> _Sent:
        work = self._inner.reduce_scatter_tensor_coalesced(outputs, inputs, *opts)
        return self._send("reduce_scatter", inputs, work, outputs, inputs)

    def _reduce_scatter_base(self, output: Tensor, given: Tensor, *opts: Any) -> _Sent:
        work = self._inner._reduce_scatter_base(output, given, *opts)
        return self._send("reduce_scatter", [given], work, [output], [given])

    # Their names in torch 2.13, which calls them as it called those.
    all_gather_single, reduce_scatter_single = _allgather_base, _reduce_scatter_base  # type: ignore[assignment]  # see above

    # What a program does before its first step, which is not throttled.
    def barrier(self, *opts: Any) -> dist.Work:
        return self._inner.barrier()

    def broadcast(self, *given: Any) -> dist.Work:
        return self._inner.broadcast(*given)

    def allgather(self, *given: Any) -> dist.Work:
        return self._inner.allgather(*given)

    # torch asks a group for its name, and one that is written in Python has to keep it.
    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_name(self) -> str:  # type: ignore[override]  # torch 2.13 has a type of its own for it, 2.11 has none
        return self._name

    def getBackendName(self) -> str:
        return "throttled"


@door
def throttled(bytes_per_s: float) -> ThrottledGroup:
    """A group of all ranks whose wire has this bandwidth. Every rank calls it, as it would ``dist.new_group``.

    Raises ValueError for a bandwidth that is not above 0, RuntimeError outside of a process group.

    Outside of a rank there is nobody to send to:

    >>> from compile_lab.devices.throttle import throttled
    >>> throttled(bytes_per_s=1e9)
    Traceback (most recent call last):
        ...
    RuntimeError: throttled joins the ranks of a process group, and none is up: call it in what ranks.run runs
    """
    if not bytes_per_s > 0:
        raise ValueError(f"bytes_per_s={bytes_per_s!r}: a wire carries more than 0 bytes in a second")
    if not dist.is_initialized():
        raise RuntimeError(
            "throttled joins the ranks of a process group, and none is up: call it in what ranks.run runs"
        )
    return dist.new_group(backend=_backend(float(bytes_per_s)))


@functools.cache
def _backend(bytes_per_s: float) -> str:
    """Registered with torch under a name of its own."""
    name = f"throttled_{bytes_per_s:.0f}".lower()
    inner = dist.group.WORLD
    assert inner is not None  # `throttled` is asked once ranks have met
    dist.Backend.register_backend(name, lambda *_: ThrottledGroup(inner, bytes_per_s), devices=["cpu"])
    return name
