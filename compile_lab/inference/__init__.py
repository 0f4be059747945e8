"""Serving what was compiled: a service that generates, and what bounds it."""

from .roofline import DecodeWork, decode_work, least_ms, most_slots, turning_batch
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
