"""Which kernels does Inductor write, from which lines, and what do they move? What does a pass of your own change?"""

from .generated import GeneratedCode, generated_code
from .lowering import collecting
from .reuse import buffer_reuse
from .traffic import eager_traffic, generated_traffic

__all__ = [
    "GeneratedCode",
    "buffer_reuse",
    "collecting",
    "eager_traffic",
    "generated_code",
    "generated_traffic",
]
