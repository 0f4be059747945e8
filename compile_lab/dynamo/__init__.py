"""Where did the graph break, what is guarded, and why was a function compiled again?"""

from .recompiles import replay, watch, would_recompile
from .tracing import trace

__all__ = ["replay", "trace", "watch", "would_recompile"]
