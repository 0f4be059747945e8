"""Private names of Dynamo and of torch's structured log."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import torch
import torch._dynamo.config
from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list as cache_entries
from torch._dynamo import convert_frame, error_on_graph_break, graph_break
from torch._dynamo import reset as reset_dynamo
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.convert_frame import register_bytecode_hook
from torch._dynamo.exc import Unsupported as NotOneGraphError
from torch._dynamo.guards import get_guard_fail_reason
from torch._dynamo.variables import TensorVariable
from torch._guards import CompileContext
from torch._logging._internal import trace_log

dynamo_config = torch._dynamo.config

break_registry = Path(torch._dynamo.__file__).with_name("graph_break_registry.json")
"""Torch's list of its kinds of graph break, as it lies in the wheel."""

_counting: list[Callable[[], None]] = []
_hooks = ExitStack()
_lock = threading.Lock()


@contextmanager
def compiled_anew() -> Iterator[None]:
    """What is compiled in the block is compiled anew, and forgotten when it ends."""
    reset_dynamo()
    try:
        yield
    finally:
        reset_dynamo()


@contextmanager
def graph_calls_counted(count: Callable[[], None]) -> Iterator[None]:
    """While the block runs, ``count`` is called each time that Dynamo's bytecode is about to run a graph.

    Blocks may be nested, and may overlap in threads: each hears all calls of the process, in its own time.
    """
    with _lock:
        if not _counting:
            _hooks.enter_context(_bytecode_heard())
        _counting.append(count)
    try:
        yield
    finally:
        with _lock:
            _counting.remove(count)
            if not _counting:
                _hooks.close()


@contextmanager
def _bytecode_heard() -> Iterator[None]:
    entered = dynamo_utils.record_pregraph_bytecode_enter

    def counted() -> Any:
        for count in tuple(_counting):
            count()
        return entered()

    with mock.patch.object(dynamo_utils, "record_pregraph_bytecode_enter", counted), _profiler_announced():
        yield


@contextmanager
def _profiler_announced() -> Iterator[None]:
    """From torch 2.15 on the bytecode makes that call only if it is told that a profiler runs: it is, and none does.

    A profiler that starts or stops meanwhile is believed when the block ends.
    """
    if torch.__version__ < "2.15":  # a TorchVersion, which compares itself as a version
        yield
        return
    profiler = torch.autograd.profiler
    runs = profiler._is_profiler_enabled

    def believed(enable: bool) -> None:
        nonlocal runs
        runs = enable

    profiler._is_profiler_enabled = True
    try:
        with mock.patch.object(profiler, "_set_is_profiler_enabled", believed):
            yield
    finally:
        profiler._is_profiler_enabled = runs


def leaves_eager(module: torch.nn.Module) -> bool:
    """``module.compile()`` compiles nothing of it, but what it calls: before torch 2.14 Dynamo skips the frames of
    torch's own classes, and ``torch.compile(module)`` alone asks for them (pytorch#150915)."""
    return torch.__version__ < "2.14" and type(module).forward.__module__.startswith("torch.")


def forget_warnings() -> None:
    """Of `.item()` torch warns once in a process, whatever is reset: after this it warns again."""
    TensorVariable._warn_capture_scalar_outputs.cache_clear()


def compiling(frame: FrameType | None) -> tuple[str, str] | None:
    """What Dynamo is compiling on the stack that ``frame`` is the top of, of whichever thread: its id, its function."""
    while frame is not None:
        if frame.f_code is convert_frame._compile.__code__:
            held = frame.f_locals
            return str(held["compile_id"]), held["code"].co_qualname
        frame = frame.f_back
    return None
