"""What joins the stages: one line of a program followed through all of them, and a report on a model of one's own.

Nothing is imported before it is asked for: the command beside this file starts another process, and needs no torch.
"""

from typing import TYPE_CHECKING

from ..doors import on_demand

if TYPE_CHECKING:
    from .line import follow
    from .model import report
    from .steps import journey

__getattr__ = on_demand(__name__, follow="line", journey="steps", report="model")
__all__ = ["follow", "journey", "report"]
