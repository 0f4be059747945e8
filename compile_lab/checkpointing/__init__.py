"""What to keep for the backward and what to compute again: strategies, the compiler's plan, the price."""

from ..measure.judge import gradient_error
from .cost import Subject, measured, measured_plan, reference
from .plan import longest_gap, plans, saved_blocks
from .strategies import EVERY_LAYER, MATMULS_KEPT, NONE, Strategy, checkpointed

__all__ = [
    "EVERY_LAYER",
    "MATMULS_KEPT",
    "NONE",
    "Strategy",
    "Subject",
    "checkpointed",
    "gradient_error",
    "longest_gap",
    "measured",
    "measured_plan",
    "plans",
    "reference",
    "saved_blocks",
]
