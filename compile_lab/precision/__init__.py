"""Number formats and their errors, where casts go, and what a precision does to training."""

from .formats import FORMATS, op_errors, quantisation

__all__ = ["FORMATS", "op_errors", "quantisation"]
