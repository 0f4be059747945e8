"""Private names of torch's compile caches."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LOG = "torch._functorch._aot_autograd.autograd_cache"


@contextmanager
def key_parts_heard(parts: dict[str, str]) -> Iterator[None]:
    """While the block runs, what AOTAutograd's cache makes its key of is put into ``parts``: a hash by name.

    The same is printed with ``TORCH_LOGS="+torch._functorch._aot_autograd.autograd_cache"``. Of several graphs the
    first is kept.
    """

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said = record.getMessage()
            if "hash details for key" in said and not parts:
                parts.update({name: value for value, name in re.findall(r"(?m)^\[(\w+)\] ([^:\n]+):", said)})

    log, handler = logging.getLogger(_LOG), Heard()
    before, propagates = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
        log.propagate = propagates


def inputs_hash(device: str) -> str:
    """What Inductor's cache makes of a graph's input that lies on this device, such as "cuda:1": its hash.

    Nothing is there: the tensor is fake, so the device may be one that this machine does not have.
    """
    from torch._inductor.codecache import FxGraphCachePickler
    from torch._subclasses import FakeTensorMode

    graph = torch.fx.GraphModule({}, torch.fx.Graph())
    with FakeTensorMode():
        return FxGraphCachePickler(graph).get_hash([torch.empty(8, 8, device=device)])
