"""Programs that torch compiles, or once compiled, wrong in silence; by the stage at which they go wrong."""

from .catalogue import LADDER, RIGHT, STAGES, WRONG, Fault, outcomes
from .kept import FAULTS, board, fate

__all__ = ["FAULTS", "LADDER", "RIGHT", "STAGES", "WRONG", "Fault", "board", "fate", "outcomes"]
