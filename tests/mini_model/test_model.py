"""MiniGPT: its shapes, its arithmetic against a plain reference, and that it is captured as one graph."""

import math

import pytest
import torch
import torch.nn.functional as F

from mini_model.flex import documents_of, soft_cap
from mini_model.model import GPT2_124M, MINI, Attention, GPTConfig, MiniGPT, config, generate

pytestmark = pytest.mark.processes

TINY = GPTConfig(vocabulary=50, context=16, dim=32, layers=2, heads=4)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return MiniGPT(TINY)


def batch(n=2, length=16, vocabulary=50):
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(vocabulary, (n, length + 1), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


def test_mini_has_the_shape_the_book_names():
    model = MiniGPT()
    assert model.config == MINI == config("mini")
    assert type(model.head) is torch.nn.Linear and tuple(model.head.weight.shape) == (600, 64)
    inputs, targets = batch(vocabulary=600, length=64)
    assert model(inputs).shape == (2, 64, 600)
    assert model(inputs, targets).item() == pytest.approx(math.log(600), rel=0.02)  # knows nothing yet


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


@pytest.mark.parametrize("shape", [TINY, GPTConfig(50, 16, 32, 2, 4, tied_head=True)], ids=["untied", "tied"])
def test_compiles_as_one_graph_with_the_same_loss_and_gradients(shape):
    torch.manual_seed(0)
    model = MiniGPT(shape)
    inputs, targets = batch()
    expected = torch.autograd.grad(model(inputs, targets), list(model.parameters()))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    loss = compiled(inputs, targets)
    torch.testing.assert_close(loss, model(inputs, targets))
    torch.testing.assert_close(torch.autograd.grad(loss, list(model.parameters())), expected)
    torch.testing.assert_close(compiled(inputs), model(inputs))


def test_generate_stops_at_the_end_token_or_the_limit(model):
    sentences = generate(model, n=40, end=0, seed=3)
    assert len(sentences) == 40 and sentences == generate(model, n=40, end=0, seed=3)
    assert all(tokens.index(0) == len(tokens) - 1 for tokens in sentences if 0 in tokens)
    assert {len(tokens) for tokens in sentences if 0 not in tokens} == {TINY.context}
    assert max(len(tokens) for tokens in generate(model, n=40, end=0, limit=5)) == 5


def test_generate_draws_from_the_models_distribution(model):
    drawn = torch.tensor([tokens[0] for tokens in generate(model, n=4000, end=0, limit=1)])
    expected = model(torch.tensor([[0]]))[0, 0].softmax(-1)
    frequency = F.one_hot(drawn, 50).double().mean(0)
    errors = (expected * (1 - expected) / 4000).sqrt()
    assert ((frequency - expected).abs() < 5 * errors).all()


def test_documents_end_with_their_end_token():
    tokens = torch.tensor([[5, 0, 3, 3, 0, 0, 2]])
    assert documents_of(tokens, 0).tolist() == [[0, 0, 1, 1, 1, 2, 3]]


def test_a_soft_cap_bounds_scores_and_leaves_small_ones():
    scores = torch.tensor([-1e4, -0.1, 0.0, 0.1, 1e4])
    nowhere = torch.tensor(0)
    bent = soft_cap(20.0)(scores, nowhere, nowhere, nowhere, nowhere)
    assert bent.abs().max() <= 20 and (bent[1:4] - scores[1:4]).abs().max() < 1e-5
