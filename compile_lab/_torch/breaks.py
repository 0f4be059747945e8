"""Private names of torch that break graphs, or that a function must name to break one."""

from torch import _check as check
from torch import _prims_common
from torch._dynamo import graph_break, nonstrict_trace, skip_frame, step_unsupported
from torch._dynamo.comptime import comptime
from torch._higher_order_ops import (
    associative_scan,
    hints_wrapper,
    invoke_subgraph,
    map,
    out_dtype,
    scan,
    strict_mode,
    while_loop,
)
from torch._higher_order_ops.wrap import wrap, wrap_with_autocast, wrap_with_set_grad_enabled
from torch._prims_common import elementwise_dtypes
from torch.autograd import _unsafe_preserve_version_counter as unsafe_preserve_version_counter
from torch.overrides import _pop_mode as pop_mode

promotion = _prims_common.ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
