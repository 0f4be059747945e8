"""Many devices on paper: sharding, traffic, pipelines and overlap by formula.

Plain Python without torch, so that it runs in a browser too.
"""

from .experts import expert_loads
from .overlap import Span, difference, merged, total_ms
from .patterns import plan
from .pipeline import SCHEDULES, closed_form, simulate, table, timeline_of
from .recommendation import Network, compute_s, recommend
from .sharding import parameter_count, parameters
from .wire import MB, Gradient, buckets, ddp_overlap, fsdp_order, measured_wire

__all__ = [
    "MB",
    "SCHEDULES",
    "Gradient",
    "Network",
    "Span",
    "buckets",
    "closed_form",
    "compute_s",
    "ddp_overlap",
    "difference",
    "expert_loads",
    "fsdp_order",
    "measured_wire",
    "merged",
    "parameter_count",
    "parameters",
    "plan",
    "recommend",
    "simulate",
    "table",
    "timeline_of",
    "total_ms",
]
