"""Private names of Dynamo and of torch's structured log."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch._dynamo.config
from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list as cache_entries
from torch._dynamo import graph_break
from torch._dynamo import reset as reset_dynamo
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.convert_frame import register_bytecode_hook
from torch._dynamo.guards import get_guard_fail_reason
from torch._guards import CompileContext
from torch._logging._internal import trace_log

REGION_ENTERED = "record_pregraph_bytecode_enter"
"""The function of ``torch._dynamo.utils`` that Dynamo's bytecode calls each time it is about to run a graph."""

dynamo_config = torch._dynamo.config


def compiled_backward(compiler: Callable[..., Any]) -> AbstractContextManager[None]:
    """While the block runs, a backward is captured as a whole, accumulation into ``.grad`` included, and handed to
    ``compiler``, which is what ``torch.compile()`` without a function gives. Imported on first use.
    """
    from torch._dynamo import compiled_autograd

    return compiled_autograd._enable(compiler, dynamic=False)


__all__ = [
    "REGION_ENTERED",
    "CompileContext",
    "cache_entries",
    "compiled_backward",
    "dynamo_config",
    "dynamo_utils",
    "get_guard_fail_reason",
    "graph_break",
    "register_bytecode_hook",
    "reset_dynamo",
    "trace_log",
]
