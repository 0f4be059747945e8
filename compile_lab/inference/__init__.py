"""What compiled code costs and gives when it answers requests: a service, its guards, a package without Python."""

from .grouped import grouped_product, grouped_traps, layer_runs, virtual_product
from .overhead import call_costs, guard_costs, per_guard
from .skipped import skipped_changes, stances

__all__ = [
    "call_costs",
    "grouped_product",
    "grouped_traps",
    "guard_costs",
    "layer_runs",
    "per_guard",
    "skipped_changes",
    "stances",
    "virtual_product",
]
