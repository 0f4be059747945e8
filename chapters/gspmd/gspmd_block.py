"""An MLP and one block of a GPT, written in JAX and in torch with the same weights, and the layouts they are given.

Weights keep torch's names and shapes (``up.weight`` is [out, in]), so that one layout serves both. q, k and v are three
matmuls, or, with the weights of `fused`, one whose rows are in the order of the heads, so that a slice of them is whole
heads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compile_lab.doors import door

from .gspmd import AXIS, FREE, Partitioned, jax_here, mesh_of, partitioned, spec

EPSILON = 1e-5  # of torch's LayerNorm
NORMS, LINEARS = ("norm1", "norm2"), ("q", "k", "v", "out", "up", "down")
NAMES = tuple(f"{part}.{kind}" for part in (*NORMS, *LINEARS) for kind in ("weight", "bias"))
WHOLE = dict.fromkeys(NAMES, "R")
COLUMNS = {f"{part}.{kind}": "S(0)" for part in ("q", "k", "v", "up") for kind in ("weight", "bias")}
ROWS = {"out.weight": "S(1)", "down.weight": "S(1)"}


@dataclass(frozen=True)
class BlockLayout:
    """Where a block's input, its weights and, where they are given, values between them are split.

    ``stream`` is the stream between the block's halves, ``wide`` what the split weights make of it: q, k, v, what
    attention mixes, the MLP's width. The gradients are asked for where the weights are.
    """

    name: str
    x: str
    weights: Mapping[str, str] = field(repr=False)
    stream: str = FREE
    wide: str = FREE

    def annotated(self, names: Sequence[str]) -> "BlockLayout":
        """Only these weights keep their placement, the others are free. Raises ValueError for a name that is none."""
        if unknown := sorted(set(names) - set(self.weights)):
            raise ValueError(f"names: a block has no weight {', '.join(unknown)}; it has {', '.join(self.weights)}")
        return replace(self, weights={each: w if each in names else FREE for each, w in self.weights.items()})


LAYOUTS = {
    each.name: each
    for each in (
        BlockLayout("ddp", "S(0)", WHOLE),
        BlockLayout("fsdp", "S(0)", dict.fromkeys(NAMES, "S(0)")),
        BlockLayout("tp", "R", WHOLE | COLUMNS | ROWS),
        BlockLayout("tp+sp", "S(1)", WHOLE | COLUMNS | ROWS, "S(1)", "S(2)"),
    )
}
"""Along one axis. ``ddp`` splits the batch, ``fsdp`` that and each weight's rows, ``tp`` heads and the MLP's width as
Shoeybi et al. (2019) do, ``tp+sp`` also the positions of the stream (Korthikanti et al., 2022)."""


def layout_named(name: str) -> BlockLayout:
    """The layout of that name. ValueError lists the names."""
    if name not in LAYOUTS:
        raise ValueError(f"layout {name!r} is not known; it is one of {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


@door
def weights_of(block: nn.Module) -> dict[str, numpy.ndarray]:
    """The weights of a MiniGPT block under the names of `NAMES`; q, k and v are the thirds of its ``attention.qkv``.

    Raises ValueError for a module that is no such block.
    """
    held = {name: each.detach().numpy() for name, each in block.named_parameters()}
    try:
        found = {f"{part}.{kind}": held[f"{part}.{kind}"] for part in NORMS for kind in ("weight", "bias")}
        for kind in ("weight", "bias"):
            thirds = numpy.split(held[f"attention.qkv.{kind}"], 3)
            found |= {f"{n}.{kind}": each for n, each in zip("qkv", thirds, strict=True)}
            found[f"out.{kind}"] = held[f"attention.out.{kind}"]
            found |= {f"{part}.{kind}": held[f"mlp.{part}.{kind}"] for part in ("up", "down")}
    except KeyError as missing:
        raise ValueError(f"block has no parameter {missing}: hand over a MiniGPT's, such as model.blocks[0]") from None
    return {name: found[name] for name in NAMES}


# In JAX ---------------------------------------------------------------------------------------------------------------


def mlp(x: Any, up: Any, down: Any) -> Any:
    """x [rows, dim], up [width, dim], down [dim, width] → [rows, dim]."""
    return jax_here().nn.gelu(x @ up.T) @ down.T


Constraint = Callable[[Any], Any]
"""A value, and the same value held to a placement."""


def free(value: Any) -> Any:
    """The constraint that is none."""
    return value


def block(
    weights: Mapping[str, Any], x: Any, heads: int = 4, stream: Constraint = free, wide: Constraint = free
) -> Any:
    """x [batch, length, dim] → the same shape. ``stream`` and ``wide`` are laid on what `BlockLayout` names so."""
    jax = jax_here()
    mixed = attention(weights, stream(norm(weights, "norm1", x)), heads, wide)
    with jax.named_scope("add1"):
        x = stream(x + mixed)
    up = wide(linear(weights, "up", stream(norm(weights, "norm2", x))))
    with jax.named_scope("gelu"):
        up = jax.nn.gelu(up)
    down = linear(weights, "down", up)
    with jax.named_scope("add2"):
        return stream(x + down)


def attention(weights: Mapping[str, Any], h: Any, heads: int, wide: Constraint = free) -> Any:
    """Causal attention of a normalised stream h [batch, length, dim], before it is added."""
    jax = jax_here()
    batch, length, _ = h.shape
    width = weights["out.weight"].shape[1]  # in a device's own program, of its own heads
    q, k, v = _heads_of(weights, h, (batch, length, heads, width // heads), wide)
    with jax.named_scope("scores"):
        scores = jax.numpy.einsum("bthd,bshd->bhts", q, k) / (width // heads) ** 0.5
        # jnp.where and jax.nn.softmax are functions of their own in the program, into which nobody can look.
        later = jax.lax.broadcasted_iota("int32", scores.shape, 3) > jax.lax.broadcasted_iota("int32", scores.shape, 2)
        scores = jax.lax.select(later, jax.numpy.full_like(scores, -1e30), scores)
        powers = jax.numpy.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
        shares = powers / powers.sum(-1, keepdims=True)
    with jax.named_scope("mixed"):
        mixed = wide(jax.numpy.einsum("bhts,bshd->bthd", shares, v).reshape(batch, length, width))
    return linear(weights, "out", mixed)


def _heads_of(
    weights: Mapping[str, Any], h: Any, shape: tuple[int, int, int, int], wide: Constraint
) -> tuple[Any, Any, Any]:
    """q, k and v [batch, length, heads, width of a head], by three matmuls or by one."""
    jax = jax_here()
    if "qkv.weight" in weights:
        together = wide(linear(weights, "qkv", h))
        with jax.named_scope("qkv"):
            together = together.reshape(*shape[:3], 3, shape[3])
            return tuple(together[..., at, :] for at in range(3))
    parts = {each: wide(linear(weights, each, h)) for each in "qkv"}
    for each in parts:
        with jax.named_scope(each):
            parts[each] = parts[each].reshape(shape)
    return tuple(parts.values())


def fused(values: Mapping[str, Any], heads: int = 4) -> dict[str, Any]:
    """A block's weights, or the placements of them, with q, k and v as one matrix: head after head, its q, k and v.

    Of placements the q's is taken.
    """
    kept = {name: each for name, each in values.items() if name[:2] not in ("q.", "k.", "v.")}
    for kind in ("weight", "bias"):
        three = [values[f"{each}.{kind}"] for each in "qkv"]
        if isinstance(three[0], str):
            kept[f"qkv.{kind}"] = three[0]
        else:
            by_head = [each.reshape(heads, -1, *each.shape[1:]) for each in three]
            stacked = jax_here().numpy.stack(by_head, axis=1)
            kept[f"qkv.{kind}"] = stacked.reshape(-1, *three[0].shape[1:])
    return kept


def linear(weights: Mapping[str, Any], name: str, x: Any) -> Any:
    """x @ weight.T + bias, as torch's Linear."""
    with jax_here().named_scope(name):  # the compiled program's instructions bear it
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def norm(weights: Mapping[str, Any], name: str, x: Any) -> Any:
    """torch's LayerNorm over the last dimension."""
    jax = jax_here()
    with jax.named_scope(name):
        centred = x - x.mean(-1, keepdims=True)
        scale = jax.numpy.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return centred / scale * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def loss(weights: Mapping[str, Any], x: Any, heads: int = 4, stream: Constraint = free, wide: Constraint = free) -> Any:
    """A number to take gradients of: the mean square of the block's output."""
    return (block(weights, x, heads, stream, wide) ** 2).mean()


def gradients(weights: Mapping[str, Any], x: Any) -> dict[str, Any]:
    """The loss's gradient for each weight: forward and backward, as a step runs them."""
    return jax_here().grad(loss)(weights, x)


# In torch -------------------------------------------------------------------------------------------------------------


def torch_block(weights: Mapping[str, Tensor], x: Tensor, mask: Tensor, heads: int = 4) -> Tensor:
    """The same, operation by operation. ``mask`` [length, length] is True where a position may look."""
    x = x + _torch_attention(weights, _torch_norm(weights, "norm1", x), mask, heads)
    h = F.gelu(_torch_linear(weights, "up", _torch_norm(weights, "norm2", x)), approximate="tanh")
    return x + _torch_linear(weights, "down", h)


def torch_loss(weights: Mapping[str, Tensor], x: Tensor, mask: Tensor) -> Tensor:
    """The mean square of the block's output."""
    return (torch_block(weights, x, mask) ** 2).mean()


def _torch_attention(weights: Mapping[str, Tensor], h: Tensor, mask: Tensor, heads: int) -> Tensor:
    batch, length, dim = h.shape
    q, k, v = (_torch_linear(weights, n, h).view(batch, length, heads, dim // heads).transpose(1, 2) for n in "qkv")
    scores = torch.where(mask, q @ k.transpose(2, 3) / (dim // heads) ** 0.5, -1e30)
    return _torch_linear(weights, "out", (scores.softmax(-1) @ v).transpose(1, 2).reshape(h.shape))


def _torch_linear(weights: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _torch_norm(weights: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], EPSILON)


# Do they agree? -------------------------------------------------------------------------------------------------------


@door
def block_program(
    layout: str | BlockLayout,
    weights: Any,
    x: Any,
    *,
    devices: int = 4,
    heads: int = 4,
    partitioner: str = "shardy",
) -> Partitioned:
    """A block's forward and backward in one layout, compiled: a function of (weights, x) that gives the gradients."""
    layout = layout_named(layout) if isinstance(layout, str) else layout
    fn = constrained(layout, devices, heads)
    given = layout.weights, layout.x
    return partitioned(fn, (weights, x), given, mesh={AXIS: devices}, out=layout.weights, partitioner=partitioner)


def constrained(layout: BlockLayout, devices: int, heads: int = 4) -> Callable[..., Any]:
    """The gradients' function with the values between the weights held where the layout says."""
    jax, axes = jax_here(), {AXIS: devices}
    mesh = mesh_of(axes)

    def held(word: str) -> Constraint:
        if word == FREE:
            return free
        where = jax.sharding.NamedSharding(mesh, spec(word, axes))
        return lambda value: jax.lax.with_sharding_constraint(value, where)

    stream, wide = held(layout.stream), held(layout.wide)

    def gradients(weights: Mapping[str, Any], x: Any) -> dict[str, Any]:
        return jax.grad(lambda w: loss(w, x, heads, stream, wide))(weights)

    return gradients


@dataclass(frozen=True)
class Same:
    """The largest difference between JAX and torch, in the output and in the gradient of each weight."""

    output: float
    gradients: Mapping[str, float]
    partitioned: str = ""

    @property
    def worst(self) -> float:
        return max(self.output, *self.gradients.values())

    def __str__(self) -> str:
        return f"output within {self.output:.1e}, {len(self.gradients)} gradients within {self.worst:.1e}"


@door
def same(module: nn.Module, x: Tensor, layout: str = "") -> Same:
    """Run a MiniGPT block on ``x`` [batch, length, dim] as it is in torch, and in JAX with its weights; compare.

    With a ``layout`` of `LAYOUTS`, JAX's program is partitioned over four devices. Both are compared with the module
    itself, whose q, k and v are one matmul. Raises ValueError for a layout that is not known.
    """
    jax, weights = jax_here(), weights_of(module)
    parameters = list(module.parameters())
    made = module(x)
    grads = torch.autograd.grad((made**2).mean(), parameters)
    wanted = weights_of(_holding(module, grads))
    given = jax.tree.map(jax.numpy.asarray, weights), jax.numpy.asarray(x.detach().numpy())
    attention: Any = module.get_submodule("attention")
    got = jax.jit(lambda w, x: block(w, x, attention.heads))(*given)
    if layout:
        found = block_program(layout, *given, heads=attention.heads).run(*given)
    else:
        found = jax.jit(jax.grad(lambda w: loss(w, given[1], attention.heads)))(given[0])
    difference = {name: float(abs(numpy.asarray(found[name]) - wanted[name]).max()) for name in NAMES}
    return Same(float(abs(numpy.asarray(got) - made.detach().numpy()).max()), difference, layout)


def _holding(module: nn.Module, values: Sequence[Tensor]) -> nn.Module:
    """The module's shape with other numbers in it."""
    import copy

    other = copy.deepcopy(module)
    for parameter, value in zip(other.parameters(), values, strict=True):
        parameter.data = value.detach().clone()
    return other
