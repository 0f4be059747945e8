"""Number formats and their errors, where casts go, and what a precision does to training."""

from .formats import FORMATS, op_errors, quantisation, stochastically_rounded
from .training import Training

__all__ = ["FORMATS", "Training", "op_errors", "quantisation", "stochastically_rounded"]
