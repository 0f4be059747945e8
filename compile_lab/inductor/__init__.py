"""Which kernels does Inductor write, from which lines, and what do they move? What does a pass of your own change?"""

from .generated import GeneratedCode, generated_code
from .lowering import collecting
from .passes import PassReport, keyed_pass, stage_option, with_pass
from .passes_cache import asked_again
from .passes_key import PassError, source_key
from .reuse import buffer_reuse
from .traffic import eager_traffic, generated_traffic

__all__ = [
    "GeneratedCode",
    "PassError",
    "PassReport",
    "asked_again",
    "buffer_reuse",
    "collecting",
    "eager_traffic",
    "generated_code",
    "generated_traffic",
    "keyed_pass",
    "source_key",
    "stage_option",
    "with_pass",
]
