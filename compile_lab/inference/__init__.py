"""What compiled code costs and gives when it answers requests: a service, its guards, threads, a package, experts."""

from ..simulator.serving import DecodeWork, decode_work, least_ms, most_slots, turning_batch
from .served import Served, ServedModels, recorded
from .service import Answer, Endpoint, PhaseCost, Request, RequestPayback, Stream, payback, phase_cost, serve, warm_up

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
    "decode_work",
    "least_ms",
    "most_slots",
    "payback",
    "phase_cost",
    "recorded",
    "serve",
    "turning_batch",
    "warm_up",
]
