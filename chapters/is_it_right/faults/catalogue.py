"""Known faults: programs that some torch compiled wrong in silence, rebuilt in our own words after public reports.

A program is a function of ``compiled``, which compiles what it is given: it returns all that a user could see, results,
gradients, and inputs and Python's state afterwards. What it returns where ``compiled`` leaves a function as it is, is
right. ``python book/tools/known_faults.py`` runs them all on the torch at hand; `outcomes` says what became of one.
"""

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from compile_lab._torch.dynamo import compiled_anew
from compile_lab._torch.inductor import inductor_config
from compile_lab.doors import door
from compile_lab.dynamo.tracing import quiet
from compile_lab.inductor.generated import generated_code
from compile_lab.inductor.wrapper import Wrapper
from compile_lab.virtual_gpu.errors import VirtualGPUError

Compile = Callable[..., Callable[..., Any]]
Program = Callable[[Compile], list[Any]]

LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
"""torch's backends, each of which does one stage more: Dynamo; AOTAutograd; its decompositions and partition; code."""
STAGES = ("Dynamo", "guards", "AOTAutograd", "graph passes", "decompositions", "lowering", "code")
PYTORCH = "pytorch/pytorch"
RIGHT, WRONG = "right", "wrong"


@door
@dataclass(frozen=True)
class Fault:
    """A report's ``number`` at GitHub's ``repository``, what goes wrong in it, and in which of `STAGES`; ``cure``: what
    helps. With a ``chip`` it is the code for that GPU that is wrong, and no GPU is needed to see it.

    >>> from chapters.is_it_right.faults import FAULTS
    >>> FAULTS[186281].title
    'x * 0 becomes 0 where x is NaN'
    """

    number: int
    title: str
    stage: str
    program: Program
    cure: str = ""
    chip: str = ""
    repository: str = PYTORCH

    @property
    def source(self) -> str:
        """The program, as it is written, without its decorator."""
        lines = textwrap.dedent(inspect.getsource(self.program)).splitlines()
        begin = next(at for at, line in enumerate(lines) if line.startswith("def "))
        return "\n".join(["def program(compiled):", *lines[begin + 1 :]])

    @property
    def label(self) -> str:
        """How the report is cited: ``pytorch#193061``."""
        return f"{self.repository.partition('/')[2]}#{self.number}"

    @property
    def address(self) -> str:
        """Where it was reported; GitHub leads on from there where it is a pull request."""
        return f"https://github.com/{self.repository}/issues/{self.number}"


REGISTRY: dict[int, Fault] = {}
"""Every known fault by its number; `kept` has the modules that fill it."""


def fault(
    number: int, title: str, stage: str, cure: str = "", chip: str = "", repository: str = PYTORCH
) -> Callable[[Program], Program]:
    """Puts the program below it into `REGISTRY`."""

    def keep(program: Program) -> Program:
        if number in REGISTRY or stage not in STAGES:
            raise ValueError(f"fault {number} is there already, or {stage!r} is none of {', '.join(STAGES)}")
        REGISTRY[number] = Fault(number, title, stage, program, cure, chip, repository)
        return program

    return keep


@door
def outcomes(fault: Fault) -> dict[str, str]:
    """What each backend of `LADDER` makes of a fault's program: "right", "wrong", or "raises" with the error's name.
    For a chip's fault the code for that chip is read, too: it is wrong if it returns memory that nothing has written.

    >>> from chapters.is_it_right.faults import FAULTS, outcomes
    >>> outcomes(FAULTS[186281])["aot_eager"]
    'right'
    """
    expected = fault.program(as_it_is)
    found = {backend: outcome(fault.program, backend, expected) for backend in LADDER}
    return found | ({f"inductor for a virtual {fault.chip}": on_chip(fault)} if fault.chip else {})


def as_it_is(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compiles nothing."""
    return function


def outcome(program: Program, backend: str, expected: list[Any] | None = None) -> str:
    """What one backend makes of a program."""
    try:
        seen = seen_by(program, backend)
    except Exception as error:
        return f"raises {type(error).__name__}"
    return RIGHT if agree(seen, program(as_it_is) if expected is None else expected) else WRONG


def seen_by(program: Program, backend: str) -> list[Any]:
    """What a program returns whose functions are compiled by one backend, from nothing."""
    with compiled_anew(), quiet(), inductor_config.patch({"fx_graph_cache": False, "compile_threads": 1}):
        return program(lambda function, **options: torch.compile(function, backend=backend, **options))


def on_chip(fault: Fault) -> str:
    """Is there a result in the chip's code that nothing writes?"""
    unwritten: list[str] = []

    def read(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        def called(*inputs: Tensor) -> Any:
            graphs = generated_code(function, *inputs, chip=fault.chip).graphs
            unwritten.extend(name for graph in graphs for name in Wrapper.of(graph.wrapper).unwritten)
            return function(*inputs)

        return called

    try:
        fault.program(read)
    except VirtualGPUError as error:
        return f"raises {type(error).__name__}"
    return WRONG if unwritten else RIGHT


def agree(seen: list[Any], expected: list[Any]) -> bool:
    """Do two runs show the same, but for rounding? Floats to 1e-4 of their size, or 1e-5 of the largest; all else,
    and each NaN, exactly."""
    return len(seen) == len(expected) and all(map(_same, seen, expected))


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return type(one) is type(other) and one == other
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    largest = max(1.0, float(other.double().nan_to_num(0, 0, 0).abs().max()) if other.numel() else 0.0)
    return torch.allclose(one.double(), other.double(), rtol=1e-4, atol=1e-5 * largest, equal_nan=True)


def with_gradients(function: Callable[..., Any], *inputs: Tensor) -> list[Any]:
    """Results of ``function``, and the gradients of its floating inputs for cotangents between 0 and 1."""
    leaves = [each.clone().requires_grad_(each.is_floating_point()) for each in inputs]
    result = function(*leaves)
    results = result if isinstance(result, tuple) else (result,)
    draw = torch.Generator().manual_seed(1)
    drawn = [torch.rand(each.shape, generator=draw, device="cpu").to(each.device) for each in results]
    torch.autograd.backward(results, drawn)
    return [*(each.detach() for each in results), *(each.grad for each in leaves if each.requires_grad)]
