"""Is what comes out with a pass what came out without it? Bit by bit, and by float64 where bits differ.

A function is called on copies of its inputs, with the same random numbers each time; its gradients are those along
directions that are drawn once. The truth is the same call in float64, whatever its lines cast to.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from compile_lab.measure.judge import largest_relative_error, same_bits
from compile_lab.tensors import leaves, tensors

AS_NEAR = 4.0
"""With a pass, an error against float64 may be so many times that without: an order of adding moves it by less."""
UNTOLD = 16.0
"""Where there is no float64 to ask, results that are further apart than so many roundings are called wrong."""


@dataclass(frozen=True)
class JudgedTensor:
    """A result or gradient, with and without the pass. Errors are parts of the largest element.

    ``apart`` is the largest difference of the two. ``without`` and ``with_pass`` are their errors against float64;
    None where there is no such truth: random numbers are drawn, or the function holds tensors that are not its inputs.
    """

    name: str
    same_bits: bool
    apart: float
    without: float | None
    with_pass: float | None
    epsilon: float

    @property
    def is_wrong(self) -> bool:
        """True if float64 is further away with the pass than without; with no float64 to ask, if the two are apart by
        more than roundings.
        """
        if self.same_bits:
            return False
        if self.without is None or self.with_pass is None:
            return not self.apart <= UNTOLD * self.epsilon
        return not self.with_pass <= AS_NEAR * max(self.without, self.epsilon)

    def __str__(self) -> str:
        if self.same_bits:
            return f"{self.name}: the same bits"
        said = f"{self.name}: {self.apart:.1e} apart"
        if self.without is None:
            return f"{said}, with no float64 to ask"
        return f"{said}; error against float64 {self.without:.1e} without the pass, {self.with_pass:.1e} with it"


Outcome = dict[str, Tensor]
"""Results, gradients and buffers by name: "result 0", "gradient of weight", "buffer running_mean"."""


def outcome(
    fn: Callable[..., Any], args: tuple[Any, ...], seed: int, options: dict[str, Any] | None, wide: bool = False
) -> Outcome:
    """What ``fn`` gives on copies of the inputs, compiled with these options or, without any, eagerly."""
    fn = copy.deepcopy(fn) if isinstance(fn, nn.Module) else fn
    if wide and isinstance(fn, nn.Module):
        fn = fn.double()
    given = tree_map(lambda leaf: _copied(leaf, wide), args)
    call = fn if options is None else torch.compile(fn, options=options, dynamic=False)
    torch.manual_seed(seed)
    outputs = tensors(call(*given))
    found = {f"result {at}": output for at, output in enumerate(outputs)}
    found |= _gradients(fn, given, outputs, seed)
    if isinstance(fn, nn.Module):
        found |= {f"buffer {name}": buffer for name, buffer in fn.named_buffers()}
    return {name: tensor.detach().clone() for name, tensor in found.items()}


def _copied(leaf: Any, wide: bool) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf
    value = leaf.detach().clone()
    value = value.double() if wide and value.is_floating_point() else value
    return value.requires_grad_(leaf.requires_grad)


def _gradients(fn: Callable[..., Any], args: tuple[Any, ...], outputs: list[Tensor], seed: int) -> Outcome:
    wanted = [output for output in outputs if output.requires_grad and output.is_floating_point()]
    names = {id(p): name for name, p in fn.named_parameters()} if isinstance(fn, nn.Module) else {}
    names |= {id(tensor): f"input {at}" for at, tensor in enumerate(tensors(args)) if tensor.requires_grad}
    reached = leaves(wanted)
    if not reached:
        return {}
    generator = torch.Generator().manual_seed(seed)
    along = [
        torch.randn(output.shape, generator=generator).to(output) if output.ndim else torch.ones_like(output)
        for output in wanted
    ]
    made = torch.autograd.grad(wanted, reached, along)
    told = [names.get(id(leaf), f"tensor {at} that it holds") for at, leaf in enumerate(reached)]
    return {f"gradient of {name}": gradient for name, gradient in zip(told, made, strict=True)}


def truth(fn: Callable[..., Any], args: tuple[Any, ...], seed: int) -> Outcome:
    """The same in float64, run eagerly; empty where random numbers are drawn, for float64 draws other ones."""
    torch.manual_seed(seed)
    before = _random_states()
    with _Wide():
        found = outcome(fn, args, seed, None, wide=True)
    drawn = any(not torch.equal(was, now) for was, now in zip(before, _random_states(), strict=True))
    return {} if drawn else found


class _Wide(TorchFunctionMode):
    """What is asked to be float32 or shorter is float64, and so is what comes from elsewhere."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__", "double", "grad"):
            return func(*args, **(kwargs or {}))
        if name in ("float", "half", "bfloat16"):
            return args[0].double()
        given, named = tree_map(_wide, (args, kwargs or {}))
        return _wide(func(*given, **named))


def _wide(leaf: Any) -> Any:
    if isinstance(leaf, torch.dtype):
        return torch.float64 if leaf.is_floating_point else leaf
    short = isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.dtype != torch.float64
    return leaf.double() if short else leaf


def _random_states() -> list[Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_available() else ())]


def judged_tensors(plain: Outcome, passed: Outcome, exact: Outcome) -> tuple[JudgedTensor, ...]:
    return tuple(_tensor_judged(name, without, passed.get(name), exact.get(name)) for name, without in plain.items())


def _tensor_judged(name: str, without: Tensor, found: Tensor | None, exact: Tensor | None) -> JudgedTensor:
    epsilon = torch.finfo(without.dtype).eps if without.is_floating_point() else 0.0
    if found is None or (found.shape, found.dtype) != (without.shape, without.dtype):
        return JudgedTensor(name, False, torch.inf, None, None, epsilon)
    before, after = (None if exact is None else largest_relative_error(y, exact) for y in (without, found))
    apart = largest_relative_error(found, without)
    return JudgedTensor(name, same_bits(found, without), apart, before, after, epsilon)
