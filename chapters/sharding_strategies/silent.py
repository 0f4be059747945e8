"""A call on DTensors that gives another result than one process, and no exception: what is known of it, and running it.

The programs themselves are `silent_errors`, each a function of a few lines that runs on every rank.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, distribute_tensor, init_device_mesh

from compile_lab.devices import ranks as gangs
from compile_lab.devices.alarms import difference
from compile_lab.devices.placements import parts, placement
from compile_lab.doors import door

Answers = tuple[Tensor, Tensor]
ShardedInput = tuple[Tensor, str]
_SHOWN = 3


@dataclass(frozen=True)
class SilentError:
    """A program that runs on a rank and returns (what the ranks have, what one process has), as tensors.

    ``call`` is what goes wrong, as one writes it. ``place`` is where in torch 2.13's ``torch/distributed/tensor``:
    ``file: function``. ``reported`` are the numbers of pytorch's issues and pull requests about the same thing; without
    one, none was found. The program's docstring says what happens and why.
    """

    program: Callable[[Any], Answers]
    call: str
    place: str
    reported: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return self.program.__name__

    @property
    def cause(self) -> str:
        return inspect.getdoc(self.program) or ""

    @property
    def source(self) -> str:
        """The program's lines, without its docstring."""
        text = textwrap.dedent(inspect.getsource(self.program))
        (function,) = ast.parse(text).body
        assert isinstance(function, ast.FunctionDef)
        body = function.body
        return textwrap.dedent("\n".join(text.splitlines()[body[1].lineno - 1 :]))


@door
@dataclass(frozen=True)
class Finding:
    """What a run of a silent error's program said: "" as a ``difference`` if torch has fixed it.

    ``ranks`` and ``alone`` are the two answers in a few words, of the first rank that differs. An exception, which is
    an answer that nobody overlooks, is told in the difference, as ``refused: …``.

    >>> from chapters.sharding_strategies.silent import Finding
    >>> Finding("", ranks="12", alone="12")
    Finding(difference='', ranks='12', alone='12')
    """

    difference: str
    ranks: str = ""
    alone: str = ""


@door
def run_all(errors: Mapping[str, SilentError]) -> dict[str, Finding]:
    """By name, what each program says on two real ranks. Raises RankFailed if one of them brings a rank down."""
    programs = {name: error.program for name, error in errors.items()}
    told = gangs.run(_run_all, 2, programs, echo=False)
    return {name: next((each[name] for each in told if each[name].difference), told[0][name]) for name in errors}


def _run_all(programs: Mapping[str, Callable[[Any], Answers]]) -> dict[str, Finding]:
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    found = {}
    for name, program in programs.items():
        try:
            got, want = program(mesh)
            found[name] = Finding(difference(got, want), *_in_words(got.detach(), want.detach()))
        except Exception as error:
            found[name] = Finding(f"refused: {type(error).__name__}: {str(error).strip().splitlines()[0][:120]}")
    return found


def _in_words(got: Tensor, want: Tensor) -> tuple[str, str]:
    """The first elements of each that differ; where the shapes do, the shapes."""
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)}", f"shape {tuple(want.shape)}"
    off = (~torch.isclose(got.flatten(), want.flatten(), rtol=1e-7)).nonzero().flatten()
    places = (off if len(off) else torch.arange(want.numel()))[:_SHOWN]
    return _sample(got, places), _sample(want, places)


def _sample(x: Tensor, places: Tensor) -> str:
    few = ", ".join(f"{x.flatten()[int(place)].item():.4g}" for place in places)
    return few + (", …" if x.numel() > len(places) else "")


def random(*shape: int) -> Tensor:
    """The same numbers on each rank."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def on(mesh: Any, x: Tensor, word: str) -> DTensor:
    """The tensor, placed so."""
    kind = placement(word)
    if isinstance(kind, Partial):
        return DTensor.from_local(parts(x, word, mesh.size())[mesh.get_local_rank()], mesh, [kind], run_check=False)
    return distribute_tensor(x, mesh, [kind], src_data_rank=None)


def whole(result: Tensor) -> Tensor:
    """What a function of DTensors gives, put together."""
    assert isinstance(result, DTensor)
    return result.full_tensor()


def value(mesh: Any, function: Callable[..., Tensor], *inputs: ShardedInput) -> Answers:
    """What the function gives on the ranks, and alone."""
    return whole(function(*(on(mesh, *each) for each in inputs))), function(*(x for x, _ in inputs))


def gradient(mesh: Any, function: Callable[..., Tensor], *arguments: ShardedInput) -> Answers:
    """That of the first tensor, for a function whose result is one number."""

    def of(inputs: list[Tensor]) -> Tensor:
        first = inputs[0].detach().requires_grad_()
        (found,) = torch.autograd.grad(function(first, *inputs[1:]), first)
        return found

    return whole(of([on(mesh, *each) for each in arguments])), of([x for x, _ in arguments])
