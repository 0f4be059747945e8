"""Generating with a cache of keys and values: what a service runs instead of the whole model for every token.

A prompt is read once (`CachedGPT.prefill`), which fills the cache; then each call of `CachedGPT.decode` reads one new
token a sequence and what is in the cache. The cache is static: its tensors have all their slots from the start and are
written in place, and where a sequence stands is a tensor. So decoding is one graph, at whatever position, and
its addresses never change, as CUDA graphs want it.

Sequences of a batch may differ in length. Prompts are padded at their end; a padded slot is never looked at, since a
token attends only to slots up to its own position, and is written anew when the sequence gets there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .inputs import instance, positive, shown, whole
from .model import Attention, GPTConfig, MiniGPT, check_tokens


class LayerCache(nn.Module):
    """One layer's keys and values, [rows, slots, heads, dim / heads]: a row a sequence, a slot a position.

    Buffers, not plain tensors: torch.compile then knows that their addresses stay, and CUDA graphs may write to them.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, rows: int, slots: int, config: GPTConfig, like: Tensor) -> None:
        super().__init__()
        shape = rows, slots, config.heads, config.dim // config.heads
        self.register_buffer("keys", torch.zeros(shape, dtype=like.dtype, device=like.device), persistent=False)
        self.register_buffer("values", torch.zeros(shape, dtype=like.dtype, device=like.device), persistent=False)

    def write(self, rows: Tensor, positions: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put keys and values, [batch, length, heads, dim / heads], in place. rows: [batch, 1]; positions broadcast."""
        self.keys[rows, positions] = keys
        self.values[rows, positions] = values


class CachedGPT(nn.Module):
    """A MiniGPT and room for the keys and values of `rows` sequences of at most `slots` tokens.

    It has no weights of its own: it calls the model's modules in the model's order, and only attention looks elsewhere.
    `slots` is the model's context unless given. Both methods return logits [batch, vocabulary] of the token after each
    sequence, and raise ValueError for a batch over `rows` or a length over `slots`. Values (ids, lengths, positions)
    are not checked inside, where reading them would stop the graph: `padded` and `continued` do, at the door.

    >>> from mini_model.generation import CachedGPT
    >>> from mini_model.model import MiniGPT
    >>> cached = CachedGPT(MiniGPT(), rows=2, slots=32)
    >>> len(cached.caches), cached.caches[0].keys.shape
    (4, torch.Size([2, 32, 4, 16]))
    """

    def __init__(self, model: MiniGPT, rows: int, slots: int | None = None) -> None:
        super().__init__()
        self.model = instance("model", model, MiniGPT)
        self.config = config = model.config
        self.rows = whole("rows", rows)
        self.slots = config.context if slots is None else whole("slots", slots, 1, config.context)
        like = model.head.weight
        self.caches = nn.ModuleList(LayerCache(rows, self.slots, config, like) for _ in range(config.layers))

    def prefill(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Read prompts: tokens int64 [batch, length], padded at the end; lengths int64 [batch], each from 1."""
        batch, length = tokens.shape
        self._fits(batch, length)
        rows = torch.arange(batch, device=tokens.device)
        positions = torch.arange(length, device=tokens.device)
        x = self._embedded(tokens, positions)
        block: Any  # of a ModuleList, whose members torch does not type
        cache: Any
        for block, cache in zip(self.model.blocks, self.caches, strict=True):
            q, k, v = _heads(block.attention, block.norm1(x))
            cache.write(rows[:, None], positions, k, v)
            # A token looks back only, so the padding at the end is seen by nobody: no mask but the causal one.
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = _rest(block, x, y)
        return self._logits(x[rows, lengths - 1])

    def decode(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Read one more token of each sequence: tokens int64 [batch], at positions int64 [batch] (0 is a first)."""
        (batch,) = tokens.shape
        self._fits(batch, 1)
        rows, positions = torch.arange(batch, device=tokens.device)[:, None], positions[:, None]
        # [batch, heads, 1, slots]: the same for all heads
        seen = (torch.arange(self.slots, device=tokens.device) <= positions)[:, None, None]
        x = self._embedded(tokens[:, None], positions)
        block: Any
        cache: Any
        for block, cache in zip(self.model.blocks, self.caches, strict=True):
            q, k, v = _heads(block.attention, block.norm1(x))
            cache.write(rows, positions, k, v)
            k, v = (t[:batch].transpose(1, 2) for t in (cache.keys, cache.values))
            x = _rest(block, x, F.scaled_dot_product_attention(q.transpose(1, 2), k, v, attn_mask=seen))
        return self._logits(x[:, 0])

    def _embedded(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return self.model.token_embedding(tokens) + self.model.position_embedding(positions)

    def _logits(self, x: Tensor) -> Tensor:
        return self.model.head(self.model.norm(x))

    def _fits(self, batch: int, length: int) -> None:
        """Sizes only, which are known while a graph is captured."""
        if batch > self.rows:
            raise ValueError(
                f"a batch of {batch} sequences is more than the cache's {self.rows} rows; serve it in parts, or build "
                "the cache with more rows"
            )
        if length > self.slots:
            raise ValueError(
                f"a prompt of {length} tokens is longer than the cache's {self.slots} slots; cut it, or build the "
                f"cache with more slots (the model's context is {self.config.context})"
            )


def _heads(attention: Attention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of [batch, length, dim], each [batch, length, heads, dim / heads]."""
    return attention.qkv(x).unflatten(-1, (3, attention.heads, -1)).unbind(2)


def _rest(block: Any, x: Tensor, y: Tensor) -> Tensor:
    """A block's way on from what its heads returned, [batch, heads, length, dim / heads]."""
    x = x + block.attention.out(y.transpose(1, 2).flatten(2))
    return x + block.mlp(block.norm2(x))


def padded(
    prompts: Sequence[Sequence[int]], cached: CachedGPT, new_tokens: int = 1, bucket: int = 1
) -> tuple[Tensor, Tensor]:
    """Prompts as tokens [batch, length] with zeros at the ends, and their lengths [batch], on the model's device.

    The length is the longest prompt's, rounded up to a multiple of `bucket` as far as the cache has slots: compiled for
    a few lengths, prefill serves all. ValueError for no prompts, an empty one, one that leaves no room for `new_tokens`
    more, more than the cache has rows, or ids out of range; TypeError for ids that are no ints.

    >>> from mini_model.generation import CachedGPT, padded
    >>> from mini_model.model import MiniGPT
    >>> padded([[5, 6, 7], [8]], CachedGPT(MiniGPT(), rows=2), bucket=4)
    (tensor([[5, 6, 7, 0],
            [8, 0, 0, 0]]), tensor([3, 1]))
    """
    instance("cached", cached, CachedGPT), instance("prompts", prompts, list, tuple)
    whole("new_tokens", new_tokens), whole("bucket", bucket)
    if not prompts:
        raise ValueError("prompts is empty; give at least one prompt, as a list of token ids")
    for number, prompt in enumerate(prompts):
        _check_prompt(f"prompts[{number}]", prompt, cached, new_tokens)
    if len(prompts) > cached.rows:
        cached._fits(len(prompts), 1)
    longest = max(map(len, prompts))
    length = max(longest, min(cached.slots, math.ceil(longest / bucket) * bucket))
    tokens = torch.tensor([[*prompt, *[0] * (length - len(prompt))] for prompt in prompts])
    device = cached.model.head.weight.device
    return check_tokens(tokens, cached.config).to(device), torch.tensor([len(p) for p in prompts], device=device)


def _check_prompt(name: str, prompt: Sequence[int], cached: CachedGPT, new_tokens: int) -> None:
    for token in instance(name, prompt, list, tuple):
        if isinstance(token, bool) or not isinstance(token, int):
            raise TypeError(f"{name} holds {shown(token)}; it must be a list of token ids, which are ints")
        if not 0 <= token < cached.config.vocabulary:
            raise ValueError(
                f"{name} holds the token id {shown(token)}; this model's ids are 0 to {cached.config.vocabulary - 1}"
            )
    if not prompt:
        raise ValueError(f"{name} is empty; a model goes on from at least one token, such as the end token")
    # The last new token is returned, and never read.
    if len(prompt) + new_tokens - 1 > cached.slots:
        raise ValueError(
            f"{name} has {len(prompt)} tokens, and {new_tokens} new ones need {len(prompt) + new_tokens - 1} slots; "
            f"the cache has {cached.slots}: cut the prompt, ask for fewer, or build a cache with more slots"
        )


def pick(logits: Tensor, generator: torch.Generator | None = None, temperature: float = 1.0) -> Tensor:
    """The next tokens, int64 [batch], from logits [batch, vocabulary]: the likeliest, or drawn if there is a generator.

    The generator is of the CPU, so that a seed draws the same on every device with the same logits.

    >>> import torch
    >>> from mini_model.generation import pick
    >>> pick(torch.tensor([[0.1, 2.0, 0.3], [4.0, 0.0, 1.0]]))
    tensor([1, 0])
    """
    if generator is None:
        return logits.argmax(-1)
    chances = (logits.float().cpu() / temperature).softmax(-1)
    return torch.multinomial(chances, 1, generator=generator)[:, 0].to(logits.device)


@torch.no_grad()
def continued(
    cached: CachedGPT,
    prompts: Sequence[Sequence[int]],
    new_tokens: int,
    seed: int | None = None,
    temperature: float = 1.0,
    bucket: int = 1,
    prefill: Callable[[Tensor, Tensor], Tensor] | None = None,
    decode: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> list[list[int]]:
    """What the model writes after each prompt: `new_tokens` ids, the likeliest ones, or drawn if there is a `seed`.

    `prefill` and `decode` take the place of the cache's own methods: `torch.compile(cached.decode)`, for example.
    Errors as in `padded`; ValueError for a seed below 0 or a temperature that is not positive.

    >>> from mini_model.generation import CachedGPT, continued
    >>> from mini_model.model import MiniGPT
    >>> cached = CachedGPT(MiniGPT(), rows=2)
    >>> [len(written) for written in continued(cached, [[5, 6, 7], [8]], new_tokens=4)]
    [4, 4]
    """
    if seed is not None:
        whole("seed", seed, 0)
    positive("temperature", temperature)
    instance("cached", cached, CachedGPT)
    prefill, decode = prefill or cached.prefill, decode or cached.decode
    tokens, positions = padded(prompts, cached, new_tokens, bucket)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    written = [pick(prefill(tokens, positions), generator, temperature)]
    for _ in range(new_tokens - 1):
        written.append(pick(decode(written[-1], positions), generator, temperature))
        positions = positions + 1
    return torch.stack(written, 1).tolist()
