"""check says what is wrong with an answer, and takes a right one. The notebook's own solutions are checked by nbval."""

import pytest
import torch
from answers import judged_as

from chapters.inference import in_page

test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("21.1", lambda *given: 60, "of 141"),
    ("21.1", lambda *given: 1, "fit and are in time"),
    ("21.1", lambda *given: 30.0, "a whole number"),
    ("21.2", lambda lengths: min(2, len(set(lengths))), "for the lengths 16, 1, 32 it says 2; 3 compile"),
    ("21.3", lambda length: 512, "pads"),
    ("21.3", lambda length: 256, "does not fit into 256"),
    ("21.3", lambda length: 1024, "the cache has 512 slots"),
    ("21.3", lambda length: 64.0, "a whole number"),
)


@pytest.mark.parametrize("lengths", in_page.STREAMS)
def test_torch_compiles_as_often_as_the_judge_of_21_2_says(lengths):
    torch.compiler.reset()
    made = []

    def counted(graph, _):
        made.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: x * 2 + 1, backend=counted)
    for length in lengths:
        compiled(torch.ones(length, 3))
    assert len(made) == in_page.compilations(lengths)
