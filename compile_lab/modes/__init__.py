"""What does a compile mode cost, and what does it give?"""

from .cost import MODES, Comparison, ModeCost, compared, measure

__all__ = ["MODES", "Comparison", "ModeCost", "compared", "measure"]
