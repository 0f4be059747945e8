"""The opening picture of checkpointing: its heights are bytes, its words are the recording's."""

import re

import pytest

from chapters.activation_checkpointing.experiments.checkpointing import recorded
from chapters.activation_checkpointing.opening_view import HIGH, kept_or_again
from compile_lab import recordings

RUN = recordings.load("checkpointing")
COSTS = recorded(RUN.result, recordings.load("checkpointing_compiled").result)


def test_blocks_and_peaks_are_drawn_to_scale():
    drawing = kept_or_again(COSTS, 24, 67_108_864, RUN.provenance)
    boxes = [(float(w), float(h)) for w, h in re.findall(r"<rect [^>]*width='([\d.]+)' height='([\d.]+)'", drawing.svg)]
    blocks = [high for wide, high in boxes if wide < 24]
    kept = HIGH * 67_108_864 / (COSTS["none"].held_nbytes / 24)
    assert sum(high == HIGH for high in blocks) == 24 + 23, "all kept, and all but one made again"
    assert sum(high == pytest.approx(kept, abs=0.01) for high in blocks) == 24 + 1
    bars = [wide for wide, high in boxes if high == 26]
    ends = [bars[at] + bars[at + 1] for at in (0, 2, 4)]
    peaks = [COSTS[name].peak_nbytes for name in ("none", "every layer", "segments of 24")]
    assert [end / ends[0] for end in ends] == pytest.approx([peak / peaks[0] for peak in peaks], rel=0.01)
    assert "2.61 GB, for 23 % more arithmetic" in drawing.alt and "15.4 GB" in drawing.alt


def test_what_was_not_run_is_not_drawn():
    with pytest.raises(KeyError, match="segments of 24"):
        kept_or_again({name: COSTS[name] for name in ("none", "every layer")}, 24, 1)
    with pytest.raises(ValueError, match="layers"):
        kept_or_again(COSTS, 0, 1)
