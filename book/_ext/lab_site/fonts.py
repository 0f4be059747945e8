"""Smaller fonts: only the glyphs and the weights that are wanted, and no ligatures."""

from collections.abc import Collection
from pathlib import Path

from fontTools import subset
from fontTools.varLib import instancer

WEIGHTS = (400, 650)
"""From plain text to headings: what the style sheets ask for."""


def shrink(source: Path, target: Path, wanted: Collection[int] | None = None):
    """Write a woff2 font with the code points ``wanted`` (all, if None) and no layout but kerning."""
    options = subset.Options(flavor="woff2", layout_features=["kern"], notdef_outline=True)
    font = subset.load_font(str(source), options)
    picker = subset.Subsetter(options)
    picker.populate(unicodes=font.getBestCmap() if wanted is None else wanted)
    picker.subset(font)
    if "fvar" in font:
        instancer.instantiateVariableFont(font, {"wght": WEIGHTS}, inplace=True)
    subset.save_font(font, str(target), options)
