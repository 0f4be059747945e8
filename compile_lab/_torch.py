"""Every private name of torch that the instruments use.

Nothing else in compile_lab imports from ``torch._dynamo``, ``torch._inductor``, ``torch._functorch`` or
``torch._logging``. A test asks each name here for what the instruments expect of it, so a torch that moved one is
told at once and by name. Written for torch 2.13, run on 2.11, meant for 2.10 and later.
"""

import torch
import torch._inductor.config
from torch._dynamo import graph_break
from torch._dynamo import reset as reset_dynamo
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.convert_frame import register_bytecode_hook
from torch._guards import CompileContext
from torch._logging._internal import trace_log
from torch.utils._python_dispatch import _get_current_dispatch_mode

REGION_ENTERED = "record_pregraph_bytecode_enter"
"""The function of ``torch._dynamo.utils`` that Dynamo's bytecode calls each time it is about to run a graph."""

inductor_config = torch._inductor.config


def dispatch_mode_is_active() -> bool:
    """True inside a TorchDispatchMode, under which torch.compile silently runs eager."""
    return _get_current_dispatch_mode() is not None


__all__ = [
    "REGION_ENTERED",
    "CompileContext",
    "dispatch_mode_is_active",
    "dynamo_utils",
    "graph_break",
    "inductor_config",
    "register_bytecode_hook",
    "reset_dynamo",
    "trace_log",
]
