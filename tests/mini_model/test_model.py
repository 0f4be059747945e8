"""MiniGPT: its shapes, its arithmetic against a plain reference, and that it is captured as one graph."""

import math

import pytest
import torch
import torch.nn.functional as F

from mini_model.model import GPT2_124M, Attention, GPTConfig, MiniGPT, generate

pytestmark = pytest.mark.processes

TINY = GPTConfig(vocabulary=50, context=16, dim=32, layers=2, heads=4)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return MiniGPT(TINY)


def batch():
    tokens = torch.randint(50, (2, 17), generator=torch.Generator().manual_seed(1))
    return tokens[:, :-1], tokens[:, 1:]


def test_gpt2_124m_has_gpt2s_number_of_parameters():
    with torch.device("meta"):
        model = MiniGPT(GPT2_124M)
    assert sum(parameter.numel() for parameter in model.parameters()) == 124_439_808
    assert model.head.weight is model.token_embedding.weight


def test_attention_is_softmax_of_scaled_products_under_a_causal_mask():
    torch.manual_seed(0)
    attention, x = Attention(TINY), torch.randn(2, 16, 32)
    heads = []
    for q, k, v in zip(*(part.split(8, dim=-1) for part in attention.qkv(x).split(32, dim=-1)), strict=True):
        scores = q @ k.transpose(1, 2) / math.sqrt(8)
        scores = scores.masked_fill(torch.ones(16, 16).triu(1).bool(), -math.inf)
        heads.append(scores.softmax(-1) @ v)
    torch.testing.assert_close(attention(x), attention.out(torch.cat(heads, dim=-1)))


def test_a_logit_sees_no_later_token(model):
    tokens, _ = batch()
    altered = tokens.clone()
    altered[:, 9:] = (altered[:, 9:] + 1) % 50
    torch.testing.assert_close(model(tokens)[:, :9], model(altered)[:, :9])
    assert not torch.allclose(model(tokens)[:, 9], model(altered)[:, 9])


def test_loss_is_the_mean_cross_entropy_of_the_logits(model):
    tokens, targets = batch()
    chosen = model(tokens).log_softmax(-1).gather(-1, targets[..., None])
    torch.testing.assert_close(model(tokens, targets), -chosen.mean())


def test_compiles_as_one_graph_with_the_same_loss_and_gradients_with_a_tied_head_too():
    torch.manual_seed(0)
    model = MiniGPT(GPTConfig(50, 16, 32, 2, 4, tied_head=True))
    inputs, targets = batch()
    expected = torch.autograd.grad(model(inputs, targets), list(model.parameters()))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    loss = compiled(inputs, targets)
    torch.testing.assert_close(loss, model(inputs, targets))
    torch.testing.assert_close(torch.autograd.grad(loss, list(model.parameters())), expected)
    torch.testing.assert_close(compiled(inputs), model(inputs))


def test_generate_stops_at_the_end_token_or_the_limit(model):
    sentences = generate(model, n=40, end=0, seed=3)
    assert sentences == generate(model, n=40, end=0, seed=3)
    assert all(tokens.index(0) == len(tokens) - 1 for tokens in sentences if 0 in tokens)
    assert {len(tokens) for tokens in sentences if 0 not in tokens} == {TINY.context}
    assert max(len(tokens) for tokens in generate(model, n=40, end=0, limit=5)) == 5


def test_generate_draws_from_the_models_distribution(model):
    drawn = torch.tensor([tokens[0] for tokens in generate(model, n=4000, end=0, limit=1)])
    expected = model(torch.tensor([[0]]))[0, 0].softmax(-1)
    frequency = F.one_hot(drawn, 50).double().mean(0)
    errors = (expected * (1 - expected) / 4000).sqrt()
    assert ((frequency - expected).abs() < 5 * errors).all()
