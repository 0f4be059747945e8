"""FlexGPT is MiniGPT with a mask: the same numbers where the mask is causal, and nothing seen that a mask hides."""

import pytest
import torch

from mini_model.flex import (
    FlexGPT,
    block_mask,
    causal,
    documents_of,
    same_document,
    sliding_window,
    soft_cap,
)
from mini_model.model import GPTConfig, MiniGPT

SHAPE = GPTConfig(vocabulary=30, context=256, dim=32, layers=2, heads=2)


def made(kind, *rest):
    torch.manual_seed(0)
    return kind(SHAPE, *rest).requires_grad_(False)


@pytest.fixture
def tokens():
    return torch.randint(0, 30, (2, 160), generator=torch.Generator().manual_seed(1))


def test_with_a_causal_mask_it_is_minigpt_parameters_and_all(tokens):
    mini, flex = made(MiniGPT), made(FlexGPT)
    assert {name: p.shape for name, p in mini.named_parameters()} == {n: p.shape for n, p in flex.named_parameters()}
    assert all(torch.equal(one, other) for one, other in zip(mini.parameters(), flex.parameters(), strict=True))
    mask = block_mask(causal, 160)
    assert (flex(tokens, mask) - mini(tokens)).abs().max() < 1e-5
    assert abs(flex(tokens, mask, tokens) - mini(tokens, tokens)) < 1e-5


def changed(model, mask, tokens, place):
    """The places whose logits change with the token at a place, in the first row."""
    other = tokens.clone()
    other[0, place] = (other[0, place] + 1) % 30
    difference = (model(tokens, mask) - model(other, mask)).abs().amax(-1)
    assert not difference[1].any()
    return (difference[0] > 0).nonzero().flatten().tolist()


def test_a_window_reaches_so_far_a_layer_and_no_farther(tokens):
    found = changed(made(FlexGPT), block_mask(sliding_window(10), 160), tokens, 100)
    assert found == list(range(100, 100 + 2 * 9 + 1))  # two layers, each nine tokens on


def test_a_document_does_not_see_another(tokens):
    documents = torch.zeros(2, 160, dtype=torch.long)
    documents[0, 50:90] = 1
    documents[0, 90:] = 2
    found = changed(made(FlexGPT), block_mask(same_document(documents), 160, batch=2), tokens, 60)
    assert found == list(range(60, 90))


def test_documents_end_with_their_end_token():
    tokens = torch.tensor([[5, 0, 3, 3, 0, 0, 2]])
    assert documents_of(tokens, 0).tolist() == [[0, 0, 1, 1, 1, 2, 3]]


def test_a_soft_cap_bounds_scores_and_leaves_small_ones():
    scores = torch.tensor([-1e4, -0.1, 0.0, 0.1, 1e4])
    nowhere = torch.tensor(0)
    bent = soft_cap(20.0)(scores, nowhere, nowhere, nowhere, nowhere)
    assert bent.abs().max() <= 20 and (bent[1:4] - scores[1:4]).abs().max() < 1e-5


def test_the_cap_reaches_every_layer(tokens):
    plain, capped = made(FlexGPT), made(FlexGPT, soft_cap(1e-3))
    assert [block.attention.score for block in capped.blocks] == [capped.blocks[0].attention.score] * 2
    for parameters in (plain.named_parameters(), capped.named_parameters()):
        for name, parameter in parameters:
            if "qkv.weight" in name:
                parameter.mul_(30)  # as drawn, scores are smaller than the cap
    assert (capped(tokens, block_mask(causal, 160)) - plain(tokens, block_mask(causal, 160))).abs().max() > 1e-3


def test_one_graph_and_a_window_changes_with_the_mask(tokens):
    model = made(FlexGPT)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for mask in (causal, sliding_window(10)):
        blocks = block_mask(mask, 160)
        assert torch.allclose(compiled(tokens, blocks), model(tokens, blocks), atol=1e-6)
    torch.compiler.reset()


def test_a_mask_of_another_length_is_refused(tokens):
    with pytest.raises(ValueError, match="block_mask was created for"):
        made(FlexGPT)(tokens, block_mask(causal, 128))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sliding_window(0), "width is 0; it must be a whole number from 1"),
        (lambda: soft_cap(0.0), "limit is 0.0; it must be a positive number"),
        (lambda: same_document(torch.zeros(3, dtype=torch.long)), r"documents must be whole numbers \[batch, length\]"),
        (lambda: same_document(torch.zeros(1, 3)), r"documents must be whole numbers \[batch, length\]"),
        (lambda: block_mask(causal, 0), "length is 0"),
    ],
)
def test_what_makes_no_mask_is_told_by_name(call, said):
    with pytest.raises(ValueError, match=said):
        call()
