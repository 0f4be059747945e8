"""Inside a child: the code generated for a chip, run on CPU tensors, each kernel by Triton's interpreter.

Dynamo traces the function with its real tensors; Inductor then sees the graph with fake CUDA tensors in their place and
writes what it would write for the chip; and its own loader loads the wrapper, in which only what touches the device is
replaced: memory comes from the CPU, and a kernel is handed to the interpreter instead of ptxas. Needs a process with
TRITON_INTERPRET=1 from before the first import of triton.
"""

import contextlib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import torch

from .._torch.virtual_gpu import interpreter_pieces, virtual_gpu_pieces
from . import arithmetic, attention
from .errors import UnsupportedKernel
from .fake_cuda import CUDA
from .kernels import defined
from .layouts import lay_out_as_the_chip, on_cuda, twin
from .libdevice import libdevice

Edit = Mapping[str, str] | Callable[[str, str], str]

ELEMENTS = 1 << 16
"""About how many elements one program works on: the interpreter pays for each operation, hardly for its size."""


class Interpreter:
    """Generates, loads and interprets everything that is compiled with it as torch.compile's backend.

    ``kernels`` holds each kernel's source as it ran, ``launches`` how often.
    """

    def __init__(self, edit: Edit):
        self.edit = edit
        self.kernels: dict[str, str] = {}
        self.launches: Counter[str] = Counter()
        self._replace_what_touches_the_device()

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """torch.compile's backend."""
        pieces = virtual_gpu_pieces()
        mode = pieces.FakeTensorMode(allow_non_fake_inputs=True)
        with interpreter_pieces().unset_fake_temporarily(), mode:
            inputs = [twin(each) if torch.is_tensor(each) else each for each in inputs]
        _move_to_cuda(module)
        with interpreter_pieces().tracing(interpreter_pieces().TracingContext(mode)):
            return pieces.compile_fx.compile_fx(module, inputs)

    def _replace_what_touches_the_device(self) -> None:
        guards = interpreter_pieces().guards
        guards._empty_strided_cuda = _unwritten
        interpreter_pieces().torch_c._cuda_getCurrentRawStream = lambda device: 0
        # The interpreter's CPU memory is aligned as numpy aligns it, which no kernel here depends on.
        guards.assert_alignment = lambda *_: None
        cuda: Any = torch.cuda  # whose names get values of other types
        cuda._DeviceGuard = lambda device: contextlib.nullcontext()
        cuda.set_device = lambda device: None
        virtual_gpu_pieces().AsyncCompile.triton = lambda _, name, source, **__: self._kernel(name, source)
        attention.register()
        arithmetic.install()
        lay_out_as_the_chip()

    def _kernel(self, name: str, source: str) -> "_Kernel":
        edited = self.edit(name, source) if callable(self.edit) else self.edit.get(name, source)
        key, number = name, 1
        while self.kernels.setdefault(key, edited) != edited:  # two graphs may give different kernels one name
            number += 1
            key = f"{name} ({number})"
        return _Kernel(key, edited, self.launches)


def _unwritten(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    """Memory of which each element says that nothing has written it: NaN, or the largest number of its dtype."""
    memory = torch.empty_strided(size, stride, dtype=dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return memory.fill_(math.nan)
    return memory.fill_(True if dtype == torch.bool else torch.iinfo(dtype).max)


def _move_to_cuda(module: torch.fx.GraphModule) -> None:
    constructors = interpreter_pieces().device_constructors()
    for graph in (each for each in module.modules() if isinstance(each, torch.fx.GraphModule)):
        for node in graph.graph.nodes:
            if node.op == "call_method" and node.target == "cpu":
                node.target = "cuda"
            if node.op == "call_function" and node.target in constructors:
                node.kwargs = {"device": CUDA, **node.kwargs}  # what the function makes is where its data is
            node.args = torch.fx.node.map_aggregate(node.args, on_cuda)
            node.kwargs = torch.fx.node.map_aggregate(node.kwargs, on_cuda)
            node.meta.pop("example_value", None)  # fake tensors of Dynamo's own trace, on the CPU
        graph.recompile()


class _Kernel:
    """Stands for the CachingAutotuner of a generated wrapper: `run` launches the kernel in the interpreter."""

    def __init__(self, name: str, source: str, launches: Counter[str]):
        if drawn := re.search(r"tl\.rand\w*|triton_helpers\.rand\w*", source):
            raise UnsupportedKernel(
                f"{name} draws random numbers ({drawn.group()}), which could not be eager's. "
                "With Inductor's fallback_random they are eager's."
            )
        self.name, self.launches = name, launches
        self.decorated: dict[str, Any] = {}
        self.function = self._defined(source)
        signature = self.decorated["triton_meta"]["signature"]
        # Of a reduction both ways a program walks so many rows: its workspace and the sum behind it count on it
        rows = self.decorated["inductor_meta"].get("RSPLIT_SIZE")
        self.fixed = {"RSPLIT_SIZE": rows, "NUM_STAGES": 1} if rows else {}
        self.blocks = [name for name in signature if name.endswith("BLOCK") or name in self.fixed]
        # A size of 1 is a constexpr to the compiler, and is passed like any other.
        self.names = [name for name in signature if name not in self.blocks]
        # A template's grid is fixed when it is called: it comes as arguments after the kernel's own.
        self.names += self.decorated["inductor_meta"].get("extra_launcher_args", [])

    def _defined(self, source: str) -> Any:
        """The kernel as a function of the interpreter. Its decorator keeps what Inductor said instead of tuning it."""
        heuristics = interpreter_pieces().triton_heuristics
        file = f"{self.name}.py"
        kinds = [name for name in _DECORATORS if hasattr(heuristics, name)]
        stand_ins: dict[str, Any] = dict.fromkeys(kinds, self._decorator)
        with mock.patch.multiple(heuristics, **stand_ins):
            scope = defined(source, file, {"__name__": self.name})
        scope["libdevice"] = libdevice
        if "function" not in self.decorated:
            raise UnsupportedKernel(f"the source of {self.name} defines no kernel under one of Inductor's decorators")
        return self.decorated["function"]

    def _decorator(self, **options: Any) -> Callable[[Any], Any]:
        self.decorated.update(options)
        return lambda function: self.decorated.setdefault("function", function)

    def run(self, *args: Any, stream: Any = None, **_: Any) -> None:
        # All memory is the CPU's here, and a constant of the graph says that its is the GPU's. No kernel writes to one.
        here = [arg.cpu() if torch.is_tensor(arg) else arg for arg in args]
        values = dict(zip(self.names, here, strict=True))
        blocks = {name: size for name, size in self._sizes().items() if name in self.blocks} | self.fixed
        if rows := self.fixed.get("RSPLIT_SIZE"):
            blocks["XBLOCK"] = math.gcd(blocks["XBLOCK"], rows)  # a program takes whole blocks
        numbers = {name: value for name, value in values.items() if isinstance(value, int)}
        grid_of = interpreter_pieces().triton_heuristics.GridExpr.from_meta
        grid = grid_of(self.decorated["inductor_meta"], dict(blocks)).eval_slow({**numbers, **blocks})
        own = {name: value for name, value in values.items() if not name.startswith("_grid_")}
        self.launches[self.name] += 1
        try:
            self.function[grid](**own, **blocks)
        except UnsupportedKernel:
            raise
        except Exception as error:
            cause = error.__cause__ or error
            if isinstance(cause, UnsupportedKernel):
                raise cause from None
            raise UnsupportedKernel(f"{self.name} failed in Triton's interpreter: {cause}") from error

    def _sizes(self) -> dict[str, int]:
        """A block size for each dimension: large ones are quick here. Inductor's largest is the limit: a kernel whose
        size is a multiple of that has no mask.
        """
        left, sizes, most = ELEMENTS, {}, interpreter_pieces().max_block
        hints = self.decorated.get("size_hints", {})
        for dimension in sorted(hints, key=lambda name: name not in ("r0_", "r1_")):  # reductions first
            size = min(hints[dimension], left, most[dimension.upper()], 4096 if len(hints) > 1 else left)
            sizes[f"{dimension.upper()}BLOCK"] = max(1, size)
            left = max(1, left // max(1, size))
        return sizes


_DECORATORS = (
    *("pointwise", "reduction", "persistent_reduction", "cooperative_reduction"),
    *("split_scan", "template", "foreach"),
)
