"""What joins the stages: one line of a program followed through all of them."""

from .line import follow
from .steps import journey

__all__ = ["follow", "journey"]
