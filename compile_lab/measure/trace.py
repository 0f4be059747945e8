"""torch's profiler: kernels, launches and marks of one step."""

import gzip
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile


def profiled(call: Callable[[Any], Any], prepared: Sequence[Any]) -> Any:
    """The profiler's events of ``call(one)`` for each of the ``prepared``, on CPU and GPU. Needs a GPU."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as seen:
        for one in prepared:
            call(one)
        torch.cuda.synchronize()
    return seen.events()


def is_kernel(event: Any) -> bool:
    """True for an event of the profiler that is a kernel: neither a copy or fill of memory, nor a mark."""
    on_device = event.device_type == DeviceType.CUDA and not getattr(event, "is_user_annotation", False)
    return on_device and not event.name.startswith(("Mem", "ProfilerStep", "Activity Buffer"))


LAUNCHES = ("cuda_runtime", "cuda_driver")


def _loaded(trace: Any) -> Any:
    if isinstance(trace, Mapping):
        return trace
    if isinstance(trace, torch.profiler.profile):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            trace.export_chrome_trace(str(path))
            return json.loads(path.read_bytes())
    if not isinstance(trace, str | Path):
        kind = type(trace).__name__
        raise TypeError(f"a trace is a path, a dict or a torch.profiler.profile, not {kind}")
    raw = Path(trace).read_bytes()
    try:
        return json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(
            f"{Path(trace).name} is not a whole JSON file ({error}): was the profiler stopped before it was exported?"
        ) from error


def _events(trace: Any) -> list[dict[str, Any]]:
    events = trace.get("traceEvents") if isinstance(trace, Mapping) else None
    if not isinstance(events, list):
        raise ValueError("this is no chrome trace: it has no list under 'traceEvents'; export_chrome_trace writes one")
    return events
