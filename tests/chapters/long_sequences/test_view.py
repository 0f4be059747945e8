"""Long sequences as a reader sees them."""

import pytest

from chapters.long_sequences import packing, view
from chapters.long_sequences.attention import Run
from chapters.long_sequences.balance import ORDERS, balance
from chapters.long_sequences.losses import Gradient
from chapters.long_sequences.recompiles import Compiled

DOCUMENTS = [704, 112, 48, 24, 344, 192, 112]


@pytest.mark.parametrize("order", ORDERS)
def test_a_mask_s_title_is_its_balance(order):
    mask, bars = view.mask_by_owner(order, DOCUMENTS, 4)
    found = balance(order, DOCUMENTS, 4)
    assert f"{found.slowest:.2f} times the mean" in mask.alt
    assert f"Rank {found.pairs.index(max(found.pairs))} computes the most" in bars.alt
    assert len(mask._repr_html_()) < 15_000, "ten of these are one output"


def test_the_opening_says_what_a_million_tokens_save():
    assert view.growth().alt.startswith("A sequence of a million tokens saves 4,673 GB of activations; cut into 64")


def test_tables_say_what_was_found():
    runs = [Run("a", 1e-6, 3, 3, 8, 2), Run("b", 1e-3, 3, 6, 2, 2)]
    assert [row[1] for row in view.runs(runs).rows] == [True, False] and view.runs(runs).rows[0][-1] == 4
    assert "1.50 times" in view.sent(runs).alt
    drawn = view.balances({"one causal sequence": [1536], "documents": DOCUMENTS}, 4)
    assert "1.47 times the mean under head-tail, and 1.00 times per document, by rank" in drawn.alt
    assert "eager from row 2 on" in repr(view.compiled([Compiled("a", (1,), 0, 3)]))
    assert "off by 50%" in repr(view.gradients([Gradient("a", 0.5), Gradient("b", 0.0)]))
    assert "67%" in repr(view.packed(packing.kinds([2, 2, 2])))


def test_pictures_of_rows_are_named_by_what_they_show():
    lengths = packing.document_lengths()
    rows = packing.first_fit(lengths, 1024)
    assert "44-fold" in view.row_work(rows, 1024).alt
    assert view.waste(packing.layouts(lengths, 1024, 8)).alt.startswith(
        "Padding takes 78% of the positions; packed, 0.8%"
    )
