"""Smaller fonts: only the glyphs that are wanted, and no ligatures."""

from collections.abc import Collection
from pathlib import Path

from fontTools import subset


def shrink(source: Path, target: Path, wanted: Collection[int] | None = None):
    """Write a woff2 font with the code points ``wanted`` (all, if None) and without layout features."""
    options = subset.Options(flavor="woff2", layout_features=[], notdef_outline=True)
    font = subset.load_font(str(source), options)
    picker = subset.Subsetter(options)
    picker.populate(unicodes=font.getBestCmap() if wanted is None else wanted)
    picker.subset(font)
    subset.save_font(font, str(target), options)
