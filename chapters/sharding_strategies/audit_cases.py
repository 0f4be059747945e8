"""Which calls the audit asks about: torch's sample inputs of an operator, and placements of them."""

import fnmatch
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from compile_lab._torch.opinfo import operators, samples_with_sides_of
from compile_lab.devices.dtensor import DTensorCall, shards_of
from compile_lab.devices.placements import REDUCTIONS
from compile_lab.doors import door
from compile_lab.tensors import tensors

SEED = 0
VALUE, GRADIENT = "value", "gradient"
ALL, MAIN, SHARDS = "all", "main", "shards"
"""Which placements a sample is asked about."""
_LOOKED_AT = 60
_LARGEST = 50_000
_TYPES = (torch.float64, torch.float32, torch.int64, torch.complex128, torch.bool)


@door
def matching(only: str = "*") -> tuple[str, ...]:
    """Operators of torch's table whose name matches one of the patterns, which commas part: ``"sum,nn.functional.*"``.

    Raises ValueError if there is none.
    """
    patterns = [each.strip() for each in only.split(",")]
    found = tuple(n for n in sorted(operators()) if any(fnmatch.fnmatchcase(n, each) for each in patterns))
    if not found:
        raise ValueError(f"no operator of torch's table matches {only!r}; try 'nn.functional.*' or 'sum'")
    return found


@dataclass(frozen=True)
class _Case:
    """A call of the audit, and what a row says of it."""

    call: DTensorCall
    layout_name: str
    quantity: str
    shards: str
    example: str


def cases_of(name: str, ranks: int, samples: int) -> Iterator[_Case]:
    """The cases of an operator, in an order that does not change. A gradient follows the value that it belongs to."""
    info = operators()[name]
    for which, args, kwargs in _samples(info, ranks, samples):
        held = tensors((args, kwargs))
        differentiable = info.supports_autograd and any(x.is_floating_point() for x in held)
        for layout_name, layout in _layouts(held, which):
            call = DTensorCall(info.op, args, layout, kwargs, False, name)
            shards = shards_of(call, ranks)
            example = _example(args, kwargs)
            yield _Case(call, layout_name, VALUE, shards, example)
            if differentiable:
                yield _Case(replace(call, gradient=True), layout_name, GRADIENT, shards, example)


def _samples(info: Any, ranks: int, samples: int) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """(which placements, arguments, named arguments) of the samples that are asked about."""
    dtype = next((each for each in _TYPES if each in info.dtypes), None)
    if dtype is None:
        return
    made = _made(info, dtype, 2 * ranks)
    told = [repr(tree_map(lambda x: None if isinstance(x, Tensor) else x, each)) for each in made]
    unlike = [each for index, each in enumerate(made) if told[index] not in told[:index]]
    made = sorted(unlike, key=lambda each: (any(size % ranks for size in _first(each).shape), _first(each).ndim < 2))
    shared = [each for each in made if _first(each).shape[0] % ranks == 0] or made
    picked = sorted({index * len(shared) // samples for index in range(samples if shared else 0)})
    for index in picked:
        yield (ALL if index == 0 else MAIN), *shared[index]
    odd = [each for each in _made(info, dtype, 2 * ranks + 1) if any(size % ranks for size in _first(each).shape)]
    for args, kwargs in odd[:1]:
        yield SHARDS, args, kwargs


def _made(info: Any, dtype: torch.dtype, side: int) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    torch.manual_seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)
    made = []
    try:
        with samples_with_sides_of(side):
            for sample in itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=False), _LOOKED_AT):
                args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)
                held = tensors((args, kwargs))
                plain = all(x.layout == torch.strided and not x.is_nested and x.numel() <= _LARGEST for x in held)
                if held and plain and held[0].ndim and held[0].numel():
                    made.append((args, kwargs))
    except Exception:
        return made  # what was made before stands: some samples cannot have such sides
    return made


def _first(made: tuple[tuple[Any, ...], dict[str, Any]]) -> Tensor:
    return tensors(made)[0]


def _layouts(held: Sequence[Tensor], which: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """By name, the placements of all tensors."""
    first, rest = held[0], ("R",) * (len(held) - 1)
    shards = [f"S({dim})" for dim in range(first.ndim)][: 3 if which == MAIN else None]
    partial = {ALL: REDUCTIONS, MAIN: ("sum", "max"), SHARDS: ()}[which]
    for word in [*(["R"] if which == ALL else []), *shards, *(f"P({by})" for by in partial)]:
        yield word, (word, *rest)
    alike = [x.shape == first.shape for x in held]
    if sum(alike) > 1 and which != MAIN:
        for word in shards:
            yield f"all {word}", tuple(word if same else "R" for same in alike)


def _example(args: Any, kwargs: Any) -> str:
    told = tree_map(lambda x: _Shape(tuple(x.shape)) if isinstance(x, Tensor) else x, (args, kwargs))
    said = ", ".join([*map(str, told[0]), *(f"{name}={value}" for name, value in told[1].items())])
    return said if len(said) <= 100 else said[:99] + "…"


class _Shape:
    """A shape that prints as 4×3."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self._sizes = sizes

    def __repr__(self) -> str:
        return "×".join(map(str, self._sizes)) or "()"
