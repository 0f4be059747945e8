"""Chains: fusion leaves roundings out in bf16, the option puts them back; dropout's mask; the doors."""

import pytest

from chapters.return_on_investment import chains
from chapters.return_on_investment.chains import COMPILED, EAGER, EMULATED, chains_judged, dropout_masks, rows_alone

pytestmark = pytest.mark.processes


def test_a_fused_bf16_chain_is_closer_to_the_truth_and_emulated_casts_make_it_eager(monkeypatch):
    monkeypatch.setattr(chains, "CHAINS", {"pointwise": chains.pointwise})
    eager, compiled, emulated = chains_judged("bf16")
    assert (eager.way, compiled.way, emulated.way) == (EAGER, COMPILED, EMULATED)
    assert compiled.error * 1.1 < eager.error and compiled.error == pytest.approx(compiled.rounding, rel=0.01)
    assert compiled.equal < 1 and emulated.equal == 1 and emulated.error == eager.error


def test_only_fallback_random_draws_eagers_mask():
    by = {row.way: row for row in dropout_masks()}
    assert by["fallback_random"].same_mask == 1
    assert 0.45 < by["compiled"].same_mask < 0.55


def test_rows_alone_are_held_against_the_same_rows_among_many():
    rows = rows_alone(compiled=False)
    assert all(row.equal == (row.apart == 0) for row in rows)
    assert all(row.equal for row in rows if row.call.startswith("softmax"))


def test_an_unknown_way_or_precision_is_refused():
    with pytest.raises(ValueError, match="no way is called 'strict'"):
        chains_judged(ways=("strict",))
    with pytest.raises(ValueError, match="precision='fp8'"):
        chains_judged("fp8")
