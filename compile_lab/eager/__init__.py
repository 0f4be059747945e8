"""What does eager code do? Its dispatcher calls, what it saves for the backward, its floating-point work."""

from .dispatch import log
from .saved import eager_saved

__all__ = ["eager_saved", "log"]
