"""The chain that breaks are timed on: same ops, same answer, as many graphs as asked."""

import json

import pytest
import torch

from chapters.graph_breaks.experiments.graph_breaks import BREAKS, OPS, chain, record
from compile_lab.dynamo.tracing import trace


@pytest.mark.parametrize("breaks", BREAKS)
def test_each_break_adds_a_graph_and_changes_no_answer(breaks):
    x = torch.rand(16)
    found = trace(chain(breaks), x)
    assert len(found.graphs) == breaks + 1 and found.ops == OPS
    torch.testing.assert_close(found.result, chain(0)(x))


def test_a_number_of_breaks_that_does_not_cut_evenly_is_refused():
    with pytest.raises(ValueError, match="not by 2"):
        chain(2)


@pytest.mark.slow
def test_each_size_is_timed_eagerly_and_with_each_number_of_breaks():
    found = record("cpu", sizes=[64])
    assert json.loads(json.dumps(found)) == found
    assert [(row["numel"], row["breaks"]) for row in found["rows"]] == [(64, breaks) for breaks in (None, *BREAKS)]
    assert all(0 < row["low_us"] <= row["median_us"] <= row["high_us"] for row in found["rows"])
    by_breaks = {row["breaks"]: row["median_us"] for row in found["rows"]}
    assert by_breaks[0] < by_breaks[7], "eight calls of compiled code take longer than one"
