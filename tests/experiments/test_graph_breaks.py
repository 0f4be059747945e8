"""The chain that breaks are timed on: same ops, same answer, as many graphs as asked."""

import pytest
import torch

from compile_lab.dynamo.tracing import trace
from compile_lab.experiments.graph_breaks import BREAKS, OPS, chain


@pytest.mark.parametrize("breaks", BREAKS)
def test_each_break_adds_a_graph_and_changes_no_answer(breaks):
    x = torch.rand(16)
    found = trace(chain(breaks), x)
    assert len(found.graphs) == breaks + 1 and found.ops == OPS
    torch.testing.assert_close(found.result, chain(0)(x))


def test_a_number_of_breaks_that_does_not_cut_evenly_is_refused():
    with pytest.raises(ValueError, match="not by 2"):
        chain(2)
