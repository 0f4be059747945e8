"""Four ways to dispatch, and one layer."""

import pytest
import torch
import torch.nn.functional as F

from chapters.experts.captured import distance
from chapters.experts.layer import WAYS, MoE, by_expert, route, tokens
from chapters.experts.parallel import skewed
from chapters.experts.sizes import CHOICES, EXPERTS


def by_hand(layer, x):
    """Each token alone, each of its experts alone."""
    rows = []
    for row in x:
        scores = row @ layer.router + layer.bias
        best = scores.argsort(descending=True)[:CHOICES]
        gates = scores[best].softmax(0)
        rows.append(sum(g * (F.gelu(row @ layer.up[e]) @ layer.down[e]) for g, e in zip(gates, best, strict=True)))
    return torch.stack(rows)


@pytest.mark.parametrize("by", [0.0, 2.0])
@pytest.mark.parametrize(("way", "near"), [("loop", 1e-5), ("masks", 1e-5), ("grouped", 2e-2)])
def test_each_way_without_drops_is_the_layer(way, near, by):
    layer = MoE(way, bias=skewed(by))
    assert distance([layer(tokens(40))], [by_hand(layer, tokens(40))]) < near


def test_a_capacity_zeroes_what_finds_no_place():
    bias = torch.zeros(EXPERTS)
    bias[:2] = 100.0  # everybody wants the first two
    out = MoE("padded", capacity=1.0, bias=bias)(tokens(64))
    size = 64 * CHOICES // EXPERTS
    assert out[:size].abs().sum(1).min() > 0 and out[size:].abs().max() == 0


def test_counts_are_of_all_experts():
    layer = MoE("loop", bias=skewed(3.0))
    expert = route(tokens(64), layer.router, layer.bias).expert
    order, counts = by_expert(expert)
    assert counts.tolist() == torch.bincount(expert.flatten(), minlength=EXPERTS).tolist()
    assert expert.flatten()[order].tolist() == sorted(expert.flatten().tolist())


def test_an_unknown_way_is_refused():
    with pytest.raises(ValueError, match=f"way='all': it is one of {', '.join(map(repr, WAYS))}"):
        MoE("all")


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="said of torch 2.13")
def test_a_grouped_matmul_of_float32_runs_and_does_not_compile():
    rows, up, ends = torch.ones(4, 16), torch.ones(2, 16, 16), torch.tensor([1, 4], dtype=torch.int32)
    assert F.grouped_mm(rows, up, offs=ends).dtype == torch.float32
    with pytest.raises(RuntimeError, match="BF16"):
        torch.compile(F.grouped_mm, backend="eager", fullgraph=True)(rows, up, offs=ends)
