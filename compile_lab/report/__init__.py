"""What joins the stages: one line of a program followed through all of them, and a report on a model of one's own."""

from .line import follow
from .model import report
from .steps import journey

__all__ = ["follow", "journey", "report"]
