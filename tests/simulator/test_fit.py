"""Will it fit, how fast: cases worked out by hand, and sums that are those of `plan` and `recommend`."""

import pytest

from compile_lab.simulator import fit_view
from compile_lab.simulator.explored_view import ModelShape
from compile_lab.simulator.fit import BEST, CHIPS, Assumed, fit
from compile_lab.simulator.links import Links
from compile_lab.simulator.patterns import plan
from compile_lab.simulator.recommendation import Network, estimate, recommend
from compile_lab.simulator.sharding import parameter_count

TINY = ModelShape(vocabulary=100, context=10, dim=8, layers=2, heads=2)
SEVEN, MIXED = (fit_view.MODELS[name] for name in ("7 B", "OLMoE 7 B"))


def test_a_tiny_model_by_hand():
    """2 layers of width 8, 100 words, 10 tokens, fp32, one card."""
    block = 12 * 64 + 24 + 8 + 32 + 8 + 4 * 8  # four matrices; biases of qkv, out, up, down; two norms
    numbers = 100 * 8 + 10 * 8 + 2 * block + 2 * 8 + 100 * 8 + 100
    assert parameter_count(TINY) == numbers == 3540
    found = fit(TINY, "ddp", 1, "A100 40 GB", batch=3, precision="fp32")
    assert found.share.held.parameters == 4 * numbers and found.share.held.optimizer == 8 * numbers
    tokens, width = 30, 8
    norm = 2 * tokens * width * 4 + 2 * tokens * 4  # what goes in and comes out, a mean and a deviation
    layer = 2 * norm + 12 * tokens * width * 4 + tokens * 2 * 4
    assert found.share.held.activations == 2 * layer + norm + (tokens * 100 + 1) * 4
    assert found.share.buffers_nbytes == 2 * tokens * 100 * 4  # logits, and their gradient
    flop = tokens * (6 * numbers + 12 * 2 * 8 * 10)
    updates = 28 * numbers / (0.8 * 1.555e12)
    assert found.step_s == pytest.approx(flop / (0.4 * 156e12) + updates)
    assert found.tokens_per_s == pytest.approx(tokens / found.step_s) and found.fits
    assert found.mfu == pytest.approx(0.4 * (1 - updates / found.step_s))
    again = fit(TINY, "ddp", 1, "A100 40 GB", batch=3, precision="fp32", checkpointing=True)
    assert again.mfu < found.mfu, "a forward again is of no use to the model"


@pytest.mark.parametrize("chip", ["A100 40 GB", "B200"])
@pytest.mark.parametrize(("pattern", "devices"), [("ddp", 64), ("hsdp", 64), ("tp+sp", 8), ("pp", 8), ("3d", 64)])
def test_sums_are_those_of_the_plan_and_of_the_estimate(pattern, devices, chip):
    found = fit(SEVEN, pattern, devices, chip, batch=2 * devices, checkpointing=True)
    planned = plan(SEVEN, pattern, devices, batch=2 * devices, precision="bf16", checkpointing=True)
    assert found.plan == planned
    peak = CHIPS[chip].tflop_per_s["bf16"]
    card = CHIPS[chip]
    links = Links(1e9 * card.inside_gb_per_s, 1e9 * card.across_gb_per_s, switch=not chip.startswith("A100"))
    network = Network(links, 0.4e12 * peak, 0.8e12 * card.memory_tb_per_s, host=None)
    assert found.choice == estimate(planned, 1e9 * card.memory_gb, network)


def test_the_best_is_the_recommended_one_and_if_none_fits_what_holds_least():
    found = fit(SEVEN, BEST, 64, "H200", batch=64, length=1024)
    network = Assumed().network(CHIPS["H200"], "bf16")
    best = recommend(SEVEN, 64, 141e9, batch=64, length=1024, network=network).choices[0]
    assert found.plan == best.plan and found.step_s == best.step_ms / 1e3 and found.fits
    for model, names in (("70 B", ("fsdp", "pp", "tp", "3d")), ("Mixtral 47 B", ("ep", "fsdp", "pp"))):
        too_large, *others = (fit(fit_view.MODELS[model], name, 8, "A100 40 GB", batch=8) for name in (BEST, *names))
        least = min(each.plan.peak_nbytes for each in others)
        assert not too_large.fits and too_large.plan.peak_nbytes <= least
    assert too_large.plan.peak_nbytes == least, "one of these three, of a mixture"


def test_a_token_of_a_mixture_costs_its_experts_and_their_rows_are_waited_for():
    """8 devices of one machine, a sequence each: 6 operations for each parameter of the token's, 12 for attention."""
    found = fit(MIXED, "ep", 8, batch=8)
    tokens, active = 4096, parameter_count(MIXED, active=True)
    per_token = 6 * active + 12 * MIXED.layers * MIXED.dim * tokens
    assert found.mfu * found.step_s * 989e12 == pytest.approx(per_token * tokens)
    rows = 8 * tokens * MIXED.dim * 2 * 7 // 8
    waited = 4 * MIXED.layers * Links().seconds("all_to_all", 8, 8, rows)
    assert found.choice.exposed_ms > 1e3 * waited > 0.5 * found.choice.exposed_ms


FIRST = {"model": "7 B", "layers": 32, "width": 4096, "heads": 32, "vocabulary": 50257, "pattern": "best that fits"}
FIRST |= {"devices": 8, "sequences": 1, "context": 2048, "checkpointing": "off", "precision": "bf16", "chip": "H100"}
FIRST |= {"of_the_peak": 40}


def test_sizes_of_ones_own_are_those_of_the_model_they_repeat():
    named, own = (fit_view.fits(**FIRST | {"model": model}) for model in ("7 B", fit_view.OWN))
    assert [str(piece) for piece in named] == [str(piece) for piece in own]
    other = fit_view.fits(**FIRST | {"model": fit_view.OWN, "layers": 16})
    assert other[1].body != own[1].body
