"""How much work is an operation? Floating-point operations by torch's own formulas, for nodes and for running code.

The formulas are those of ``torch.utils.flop_counter``: two for each multiplication and addition of a matmul, a
convolution or attention, none for anything else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from ..doors import door


@dataclass(frozen=True)
class Work:
    """Operations that are no views, and their floating-point operations."""

    ops: int
    flops: int


def flops_of(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """Floating-point operations of one call of an operator; 0 where torch has no formula."""
    packet = getattr(op, "overloadpacket", None)
    # Attention on a CPU has an operator of its own that torch's table leaves out; the arithmetic is the same.
    name = getattr(packet, "__name__", "").replace("_for_cpu", "")
    formula = flop_registry.get(getattr(torch.ops.aten, name, None) if name else None)
    return int(formula(*args, **kwargs, out_val=result)) if formula else 0


@door
def work_of(step: Callable[[], Any]) -> Work:
    """The operations that ``step()`` sends to the dispatcher below autograd, backward and recomputation included.

    Runs it once, eagerly: compiled code steps aside under a dispatch mode.

    >>> import torch
    >>> from compile_lab.eager.flops import work_of
    >>> weight = torch.ones(64, 64, requires_grad=True)
    >>> work_of(lambda: (torch.ones(8, 64) @ weight).sum().backward())
    Work(ops=5, flops=131072)
    """
    with WorkCounter() as counter:
        step()
    return Work(counter.ops, counter.flops)


class WorkCounter(TorchDispatchMode):
    """While it is entered: ``ops`` and ``flops`` as in `Work`, so far."""

    def __init__(self) -> None:
        super().__init__()
        self.ops = self.flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.ops += 1
            self.flops += flops_of(func, args, kwargs or {}, result)
        return result
