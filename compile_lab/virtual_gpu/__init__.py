"""The same for a GPU that is not here: ``run("H200", function, *args)`` in a child process with a pretended chip.

Inductor generates for it what it would generate for the real one, forward and backward, without a GPU, on the CPU
build of torch or a CUDA build. Nothing is launched there, and no time is ever reported.

Nothing is imported before it is asked for: ``server.come_up`` starts the child while this process imports torch.
"""

from typing import TYPE_CHECKING

from ..doors import on_demand

if TYPE_CHECKING:
    from .assembly import Assembly, Config, Resources, assemble, assemble_all, resources
    from .chips import CHIPS, Chip, chip
    from .client import Begun, Interpreted, begin, interpret, run
    from .errors import VirtualGPUError
    from .launching import interpret_kernel
    from .line_maps import opcodes
    from .warps import Occupancy, occupancy

__getattr__ = on_demand(
    __name__,
    **dict.fromkeys(("Assembly", "Config", "Resources", "assemble", "assemble_all", "resources"), "assembly"),
    **dict.fromkeys(("CHIPS", "Chip", "chip"), "chips"),
    **dict.fromkeys(("Begun", "Interpreted", "begin", "interpret", "run"), "client"),
    **dict.fromkeys(("Occupancy", "occupancy"), "warps"),
    VirtualGPUError="errors",
    interpret_kernel="launching",
    opcodes="line_maps",
)

__all__ = [
    "CHIPS",
    "Assembly",
    "Begun",
    "Chip",
    "Config",
    "Interpreted",
    "Occupancy",
    "Resources",
    "VirtualGPUError",
    "assemble",
    "assemble_all",
    "begin",
    "chip",
    "interpret",
    "interpret_kernel",
    "occupancy",
    "opcodes",
    "resources",
    "run",
]
