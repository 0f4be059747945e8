"""The chain that breaks are timed on: same ops, same answer, as many graphs as asked."""

import json

import pytest

from chapters.graph_breaks.experiments.graph_breaks import BREAKS, chain, record


def test_a_number_of_breaks_that_does_not_cut_evenly_is_refused():
    with pytest.raises(ValueError, match="not by 2"):
        chain(2)


@pytest.mark.slow
def test_each_size_is_timed_eagerly_and_with_each_number_of_breaks():
    found = record("cpu", sizes=[64])
    assert json.loads(json.dumps(found)) == found
    assert [(row["numel"], row["breaks"]) for row in found["rows"]] == [(64, breaks) for breaks in (None, *BREAKS)]
    assert all(0 < row["low_us"] <= row["median_us"] <= row["high_us"] for row in found["rows"])
