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

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.interpreter import TensorHandle

from .._torch.virtual_gpu import interpreter_pieces, virtual_gpu_pieces
from . import attention
from .errors import UnsupportedKernel
from .fake_cuda import CUDA
from .kernels import defined

Edit = Mapping[str, str] | Callable[[str, str], str]

CPU = torch.device("cpu")

ELEMENTS = 1 << 16
"""About how many elements one program works on: the interpreter pays for each operation, hardly for its size."""

UPCAST = "tl.dot on bf16 operands ran in fp32: Triton's interpreter multiplies their bit patterns"


class Interpreter:
    """Generates, loads and interprets everything that is compiled with it as torch.compile's backend.

    ``kernels`` holds each kernel's source as it ran, ``launches`` how often; ``notes`` what was not done to the letter.
    """

    def __init__(self, edit: Edit):
        self.edit = edit
        self.kernels: dict[str, str] = {}
        self.launches: Counter[str] = Counter()
        self.notes: set[str] = set()
        self._replace_what_touches_the_device()

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """torch.compile's backend."""
        pieces = virtual_gpu_pieces()
        mode = pieces.FakeTensorMode(allow_non_fake_inputs=True)
        with interpreter_pieces().unset_fake_temporarily(), mode:
            on_cuda = [_twin(each) if torch.is_tensor(each) else each for each in inputs]
        _move_to_cuda(module)
        with interpreter_pieces().tracing(interpreter_pieces().TracingContext(mode)):
            return pieces.compile_fx.compile_fx(module, on_cuda)

    def _replace_what_touches_the_device(self) -> None:
        guards = interpreter_pieces().guards
        guards._empty_strided_cuda = _unwritten
        interpreter_pieces().torch_c._cuda_getCurrentRawStream = lambda device: 0
        # The interpreter's CPU memory is aligned as numpy aligns it, which no kernel here depends on.
        guards.assert_alignment = lambda *_: None
        torch.cuda._DeviceGuard = lambda device: contextlib.nullcontext()
        torch.cuda.set_device = lambda device: None
        virtual_gpu_pieces().AsyncCompile.triton = lambda _, name, source, **__: self._kernel(name, source)
        attention.register()
        _give_the_interpreter_what_it_lacks(self.notes)

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


def _twin(tensor: torch.Tensor) -> torch.Tensor:
    """A fake tensor on the GPU like this one."""
    twin = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=CUDA)
    return twin.requires_grad_(tensor.requires_grad)


def _move_to_cuda(module: torch.fx.GraphModule) -> None:
    def moved(value: Any) -> Any:
        return CUDA if value == CPU else "cuda" if isinstance(value, str) and value == "cpu" else value

    for node in module.graph.nodes:
        if node.op == "call_method" and node.target == "cpu":
            node.target = "cuda"
        node.args = torch.fx.node.map_aggregate(node.args, moved)
        node.kwargs = torch.fx.node.map_aggregate(node.kwargs, moved)
        node.meta.pop("example_value", None)  # fake tensors of Dynamo's own trace, on the CPU
    module.recompile()


class _Kernel:
    """Stands for the CachingAutotuner of a generated wrapper: `run` launches the kernel in the interpreter."""

    def __init__(self, name: str, source: str, launches: Counter[str]):
        if drawn := re.search(r"tl\.rand\w*|triton_helpers\.rand\w*", source):
            raise UnsupportedKernel(
                f"{name} draws random numbers ({drawn.group()}), which could not be eager's: dropout in training mode? "
                "Call .eval(), or set the probability to 0."
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
        kept = {name: getattr(heuristics, name) for name in kinds}
        for name in kinds:
            setattr(heuristics, name, self._decorator)
        try:
            scope = defined(source, file, {"__name__": self.name})
        finally:
            for name, original in kept.items():
                setattr(heuristics, name, original)
        scope["libdevice"] = libdevice
        if "function" not in self.decorated:
            raise UnsupportedKernel(f"the source of {self.name} defines no kernel under one of Inductor's decorators")
        return self.decorated["function"]

    def _decorator(self, **said: Any) -> Callable[[Any], Any]:
        self.decorated.update(said)
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
        """A block size for each dimension: any is right, and large ones are quick here."""
        left, sizes = ELEMENTS, {}
        hints = self.decorated.get("size_hints", {})
        for dimension in sorted(hints, key=lambda name: name not in ("r0_", "r1_")):  # reductions first
            size = min(hints[dimension], left, 4096 if len(hints) > 1 else left)
            sizes[f"{dimension.upper()}BLOCK"] = max(1, size)
            left = max(1, left // max(1, size))
        return sizes


_DECORATORS = (
    *("pointwise", "reduction", "persistent_reduction", "cooperative_reduction"),
    *("split_scan", "template", "foreach"),
)

_SAME_IN_TORCH = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow"),
    *("erf", "erfc", "erfinv", "lgamma"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("floor", "ceil", "trunc", "hypot", "fmod", "copysign", "nextafter", "isnan", "isinf", "signbit"),
}
_RENAMED = {"abs": "abs", "fabs": "abs", "rint": "round", "nearbyint": "round"}


class _Libdevice:
    """NVIDIA's device library is machine code; torch has the same functions for the CPU."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)  # Python asks whether it wraps something
        if name not in _SAME_IN_TORCH and name not in _RENAMED:
            raise UnsupportedKernel(f"libdevice.{name} has no stand-in on the CPU")
        function = getattr(torch, _RENAMED.get(name, name))

        def call(*args: Any) -> Any:
            handles = [arg.handle for arg in args if hasattr(arg, "handle")]
            data = [
                torch.as_tensor(arg.handle.data if hasattr(arg, "handle") else getattr(arg, "value", arg))
                for arg in args
            ]
            result = function(*data).numpy().astype(handles[0].data.dtype)
            return tl.core.tensor(TensorHandle(result, handles[0].dtype), args[0].type)

        return call


libdevice = _Libdevice()


def _give_the_interpreter_what_it_lacks(notes: set[str]) -> None:
    helpers = interpreter_pieces().triton_helpers
    helpers.libdevice = libdevice
    helpers.set_driver_to_gpu = lambda: None
    # A reduction with a function of its own runs element by element in Python; these two are maxima and minima.
    helpers.max2 = lambda value, dim: tl.max(value, dim)
    helpers.min2 = lambda value, dim: tl.min(value, dim)
    _count_by_one_element()
    builder = triton_interpreter.InterpreterBuilder
    dot = builder.create_dot

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return dot(self, _widened(a, notes), _widened(b, notes), *rest)

    builder.create_dot = create_dot


def _count_by_one_element() -> None:
    # A loop of a kernel runs to a number that the interpreter holds as an array of one element. Triton 3.6 makes an
    # int of the array itself, which numpy refuses from 2.4 on; 3.7 takes the element, and so do we for both.
    patch = triton_interpreter._patch_lang_tensor

    def patched(tensor: Any, *scope: Any) -> None:
        patch(tensor, *scope)
        tensor.__index__ = lambda self: self.handle.data.item()  # the patch above is what the scope undoes

    triton_interpreter._patch_lang_tensor = patched


def _widened(handle: TensorHandle, notes: set[str]) -> TensorHandle:
    # The interpreter keeps bf16 as uint16 and would multiply these (triton 3.6 and 3.7).
    if handle.dtype.scalar != tl.bfloat16:
        return handle
    notes.add(UPCAST)
    return TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)
