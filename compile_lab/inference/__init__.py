"""What compiled code costs and gives when it answers requests: a service, its guards, threads, a package, experts."""

from ..simulator.serving import DecodeWork, decode_work, least_ms, most_slots, turning_batch
from .grouped import grouped_product, grouped_traps, layer_runs, virtual_product
from .overhead import call_costs, guard_costs, per_guard
from .package import build_runner, run_in_cpp, said_to_be_for, start_ups, unlooked, updated
from .served import Served, ServedModels, recorded
from .service import Answer, Endpoint, PhaseCost, Request, RequestPayback, Stream, payback, phase_cost, serve, warm_up
from .skipped import skipped_changes, stances
from .threads import throughput

__all__ = [
    "Answer",
    "DecodeWork",
    "Endpoint",
    "PhaseCost",
    "Request",
    "RequestPayback",
    "Served",
    "ServedModels",
    "Stream",
    "build_runner",
    "call_costs",
    "decode_work",
    "grouped_product",
    "grouped_traps",
    "guard_costs",
    "layer_runs",
    "least_ms",
    "most_slots",
    "payback",
    "per_guard",
    "phase_cost",
    "recorded",
    "run_in_cpp",
    "said_to_be_for",
    "serve",
    "skipped_changes",
    "stances",
    "start_ups",
    "throughput",
    "turning_batch",
    "unlooked",
    "updated",
    "virtual_product",
    "warm_up",
]
