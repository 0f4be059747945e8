"""Four ways to dispatch, and one layer."""

import pytest
import torch
import torch.nn.functional as F

from chapters.experts import parallel
from chapters.experts.captured import captured, distance
from chapters.experts.layer import WAYS, MoE, tokens
from chapters.experts.sizes import CHOICES


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
    layer = MoE(way, bias=parallel.skewed(by))
    assert distance([layer(tokens(40))], [by_hand(layer, tokens(40))]) < near


def test_dynamic_from_the_start_is_one_graph():
    assert captured("grouped", dynamic=True).new == (1, 0, 0, 0)


REFUSED = [
    (lambda: MoE("all"), f"way='all': it is one of {', '.join(map(repr, WAYS))}"),
    (lambda: parallel.run(n=3), "n=3: 8 experts are divided evenly by 1, 2, 4 or 8 ranks"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED, ids=["way", "n"])
def test_what_no_layer_has_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="said of torch 2.13")
def test_a_grouped_matmul_of_float32_runs_and_does_not_compile():
    rows, up, ends = torch.ones(4, 16), torch.ones(2, 16, 16), torch.tensor([1, 4], dtype=torch.int32)
    assert F.grouped_mm(rows, up, offs=ends).dtype == torch.float32
    with pytest.raises(RuntimeError, match="BF16"):
        torch.compile(F.grouped_mm, backend="eager", fullgraph=True)(rows, up, offs=ends)
