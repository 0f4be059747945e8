"""Generating with a cache: the whole model's logits, for any lengths, whatever stood in the cache before."""

import pytest
import torch

from mini_model.generation import CachedGPT, continued, padded, pick
from mini_model.model import GPTConfig, MiniGPT

TINY = GPTConfig(vocabulary=50, context=16, dim=32, layers=2, heads=4)
TIED = GPTConfig(vocabulary=50, context=16, dim=32, layers=2, heads=2, tied_head=True)
PROMPTS = [[1, 2, 3], [5] * 9, [7], [9, 8, 7, 6]]


def made(config=TINY, rows=4, slots=None):
    torch.manual_seed(0)
    model = MiniGPT(config).eval()
    for parameter in model.parameters():  # larger than at the start of training, so that attention matters
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return CachedGPT(model, rows, slots)


@torch.no_grad()
def whole(cached, sequence):
    """The model's own logits after a sequence, without a cache."""
    return cached.model(torch.tensor([sequence]))[0, -1]


@pytest.mark.parametrize("config", [TINY, TIED])
def test_logits_are_the_whole_models_at_every_step_of_sequences_of_different_lengths(config):
    cached = made(config)
    sequences = [list(prompt) for prompt in PROMPTS]
    tokens, positions = padded(PROMPTS, cached, new_tokens=6)
    with torch.no_grad():
        logits = cached.prefill(tokens, positions)
        for step in range(6):
            wanted = torch.stack([whole(cached, sequence) for sequence in sequences])
            torch.testing.assert_close(logits, wanted)
            tokens = torch.tensor([(7 * step + row) % 50 for row in range(4)])
            for sequence, token in zip(sequences, tokens.tolist(), strict=True):
                sequence.append(token)
            logits = cached.decode(tokens, positions)
            positions = positions + 1


def test_what_the_cache_held_before_is_seen_by_nobody():
    cached = made()
    fresh = continued(cached, [[4, 5], [6]], 8)
    for layer in cached.caches:
        layer.keys.fill_(1e4), layer.values.fill_(1e4)
    continued(cached, [[11] * 12] * 4, 4)
    assert continued(cached, [[4, 5], [6]], 8) == fresh


def test_a_cache_of_the_last_slot_and_a_short_one():
    cached = made(slots=8)
    (found,) = continued(cached, [[1, 2, 3, 4]], 5)
    assert len(found) == 5
    sequence = [1, 2, 3, 4]
    for token in found:
        assert int(whole(cached, sequence).argmax()) == token
        sequence.append(token)


def test_a_batch_and_each_sequence_by_itself_go_on_alike_and_a_bucket_changes_nothing():
    cached = made()
    together = continued(cached, PROMPTS, 7)
    assert together == [continued(cached, [prompt], 7)[0] for prompt in PROMPTS]
    assert together == continued(cached, PROMPTS, 7, bucket=8)
    tokens, lengths = padded(PROMPTS, cached, bucket=8)
    assert tokens.shape == (4, 16) and lengths.tolist() == [3, 9, 1, 4]
    assert padded(PROMPTS, cached, bucket=100)[0].shape == (4, 16), "no longer than the cache has slots"


def test_draws_follow_the_chances():
    logits = torch.tensor([[0.0, 1.0, 2.0]]).repeat(20_000, 1)
    drawn = pick(logits, torch.Generator().manual_seed(0), temperature=2.0)
    found = drawn.bincount(minlength=3) / len(drawn)
    torch.testing.assert_close(found, torch.tensor([0.0, 0.5, 1.0]).softmax(-1), atol=0.02, rtol=0)


def test_decoding_is_one_graph_at_any_position_and_a_batch_size_is_a_shape():
    cached, graphs = made(), []

    def counted(graph, inputs):
        graphs.append(graph)
        return graph.forward

    decode = torch.compile(cached.decode, backend=counted, fullgraph=True)
    prefill = torch.compile(cached.prefill, backend=counted, fullgraph=True)
    found = continued(cached, PROMPTS, 7, prefill=prefill, decode=decode)
    assert found == continued(cached, PROMPTS, 7) and len(graphs) == 2
    continued(cached, [[3] * 9] * 4, 4, prefill=prefill, decode=decode)
    assert len(graphs) == 2, "the same shapes, other positions"
    continued(cached, PROMPTS[:3], 3, prefill=prefill, decode=decode)
    assert len(graphs) == 4, "another batch: both once more, for any batch"
    continued(cached, PROMPTS[:2], 3, prefill=prefill, decode=decode)
    assert len(graphs) == 4
