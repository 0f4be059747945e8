"""Private names of torch's compile caches."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

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
