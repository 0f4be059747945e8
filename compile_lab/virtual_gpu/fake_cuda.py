"""Inside a child: torch, Inductor and Triton are told of a GPU, and Inductor writes code that nobody loads.

Everything here changes torch for the rest of the process, which is a fork made for one chip. What is replaced is
what asks the driver; what decides and generates is Inductor's own. Seen on torch 2.11, 2.13, 2.14 and 2.15.
"""

import contextlib
import ctypes
import types
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from .._torch.aot import functorch_config
from .._torch.dynamo import reset_dynamo
from .._torch.inductor import inductor_config
from .._torch.triton_kernels import launch_nothing
from .._torch.virtual_gpu import symbolically, virtual_gpu_pieces
from .chips import Chip
from .constants import knowing_mode

CUDA = torch.device("cuda", 0)

CUDNN_OF_TORCH = {"2.11": 91900, "2.13": 92000, "2.14": 92400, "2.15": 92600}
"""Which cuDNN the CUDA 13 wheel of a torch asks for."""

# Whether an odd-shaped matmul is padded, Inductor decides by timing it on the GPU (shape_padding). Nothing is
# timed here: it is not padded, unless force_shape_pad asks for it.
SETTINGS = {"fx_graph_cache": False, "compile_threads": 1, "shape_padding": False}


def install(chip: Chip, guard: ctypes.CDLL) -> None:
    """From here on this process has one GPU, a `chip`, that can be asked everything and can hold nothing."""
    major, minor = chip.capability
    guard.install(10 * major + minor, _cudnn_version())
    _answer_for_the_driver(chip)
    _hold_constants()
    _know_the_gru()
    launch_nothing()
    _forget_that_there_was_no_gpu()
    virtual_gpu_pieces().triton_driver.set_active(_Driver(chip))


def _cudnn_version() -> int:
    """The cuDNN beside torch, as cuDNN counts (92000 for 9.20.0): attention's rules ask for it.

    A CUDA wheel installs its cuDNN as a package. The CPU build has none, and is taken for the CUDA 13 wheel of the same
    torch.
    """
    for package in ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            major, minor, patch = map(int, metadata.version(package).split(".")[:3])
            return 10_000 * major + 100 * minor + patch
    # A TorchVersion compares itself as a version.
    return max(version for torch_of_it, version in CUDNN_OF_TORCH.items() if torch.__version__ >= torch_of_it)


def _answer_for_the_driver(chip: Chip) -> None:
    pieces = virtual_gpu_pieces()
    has_bf16 = chip.capability >= (8, 0)
    properties = _properties(chip)
    answers: dict[str, Callable[..., Any]] = {
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: chip.capability,
        "get_device_name": lambda device=None: chip.device,
        "is_bf16_supported": lambda including_emulation=True: has_bf16 or including_emulation,
        "is_current_stream_capturing": lambda: False,
        "set_device": lambda device: None,
        "_lazy_init": lambda: None,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
        # Inductor asks through its own table of the same functions, filled when it was imported.
        if hasattr(pieces.CudaInterface, name):
            setattr(pieces.CudaInterface, name, staticmethod(answer))
    torch.cuda.default_generators = (_Generator(),)
    # torch.cuda.is_available() stays False: where it is True, torch makes real tensors on the GPU (to save its random
    # state, to trace its fusion patterns). Inductor's choices hang on its own table.
    pieces.CudaInterface.is_available = staticmethod(lambda: True)
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False


class _Generator(torch.Generator):
    """Stands for the GPU's random numbers, whose state is kept where a dropout is run again in the backward."""

    device = torch.device("cuda", 0)

    def clone_state(self) -> "_Generator":
        return self


def _properties(chip: Chip) -> types.SimpleNamespace:
    """What torch.cuda.get_device_properties gives."""
    return types.SimpleNamespace(
        name=chip.device,
        major=chip.capability[0],
        minor=chip.capability[1],
        total_memory=chip.memory_nbytes,
        multi_processor_count=chip.multiprocessors,
        max_threads_per_multi_processor=chip.threads_per_sm,
        max_threads_per_block=chip.threads_per_block,
        regs_per_multiprocessor=chip.registers_per_sm,
        shared_memory_per_block=chip.shared_nbytes,
        shared_memory_per_block_optin=chip.shared_optin_nbytes,
        shared_memory_per_multiprocessor=chip.shared_sm_nbytes,
        L2_cache_size=chip.l2_nbytes,
        warp_size=chip.warp_threads,
        gcnArchName="",
        is_integrated=0,
        is_multi_gpu_board=0,
    )


class _Driver:
    """What Inductor and Triton ask of Triton's active driver while code is generated."""

    def __init__(self, chip: Chip):
        self.chip = chip
        asked = {
            "max_shared_mem": chip.shared_optin_nbytes,
            "max_num_regs": chip.registers_per_sm,
            "multiprocessor_count": chip.multiprocessors,
            "warpSize": chip.warp_threads,
            "mem_clock_rate": int(chip.memory_gb_per_s * 1e6),  # in kHz: two bits a cycle on each of a bus's wires,
            "mem_bus_width": 4,  # of which any number gives the same bandwidth
        }
        self.utils = types.SimpleNamespace(get_device_properties=lambda _: asked)

    def get_current_target(self) -> Any:
        major, minor = self.chip.capability
        return virtual_gpu_pieces().GPUTarget("cuda", 10 * major + minor, self.chip.warp_threads)

    def get_current_device(self) -> int:
        return 0

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_active_torch_device(self) -> torch.device:
        return CUDA


def _hold_constants() -> None:
    # Without a GPU that is available, fake tensors forget a constant's value where it moves to the device.
    pieces = virtual_gpu_pieces()
    pieces.FakeTensorMode.avoid_device_init = False
    deepcopy = Tensor.__deepcopy__

    def copied(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
        # A backward's graph is copied before it is lowered, with its constants: among fake tensors these are real.
        if type(tensor) is not Tensor or not tensor.is_leaf or id(tensor) in memo:
            return deepcopy(tensor, memo)
        with pieces.no_dispatch():
            memo[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        return memo[id(tensor)]

    Tensor.__deepcopy__ = copied  # type: ignore[method-assign]  # in its place, on purpose


def _know_the_gru() -> None:
    """What a GPU makes of a cell of a GRU where cuDNN does not: of an LSTM's torch tells the shapes itself."""
    aten = torch.library.Library("aten", "IMPL", "Meta")
    aten.impl("_thnn_fused_gru_cell", _gru_cell)
    aten.impl("_thnn_fused_gru_cell_backward", _gru_cell_backward)
    _kept.append(aten)


_kept: list[torch.library.Library] = []
GATES, LEFT_BY_A_CELL = 3, 5
"""Of a GRU: its gates, and what its forward leaves to its backward, both a vector as long as its state."""


def _gru_cell(input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, *biases: Tensor | None) -> tuple[Tensor, Tensor]:
    rows, length = hx.shape
    return torch.empty_like(hx, memory_format=torch.contiguous_format), hx.new_empty(rows, LEFT_BY_A_CELL * length)


def _gru_cell_backward(grad: Tensor, left: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    gates = [left.new_empty(grad.shape[0], GATES * grad.shape[1]) for _ in range(2)]
    biases = [each.new_empty(each.shape[1]) if has_bias else None for each in gates]
    return *gates, torch.empty_like(grad, memory_format=torch.contiguous_format), *biases


def _forget_that_there_was_no_gpu() -> None:
    for module in virtual_gpu_pieces().modules_that_remember:
        for function in vars(module).values():
            if hasattr(function, "cache_clear") and function.__module__ == module.__name__:
                function.cache_clear()
    virtual_gpu_pieces().DeviceProperties.create.cache_clear()


@contextlib.contextmanager
def tracing(config: Mapping[str, Any]) -> Iterator[None]:
    """Every tensor made here is fake; torch.compile generates code with Inductor's `config`, and its calls return fake
    outputs of the right shapes, so that a backward or an optimizer step can follow."""
    pieces = virtual_gpu_pieces()
    pieces.GraphLowering._compile_to_module_lines = _not_loaded
    # Capturing a CUDA graph needs a GPU. What Inductor generates for one is decided before this.
    pieces.output_code.cudagraph_post_compile = lambda *_, **__: None
    pieces.output_code.cudagraph_partition_post_compile = lambda *_, **__: None
    with knowing_mode(), compiling(config):
        yield


def warm_up() -> None:
    """Compile something small, so that Inductor's tables are filled. Without gradients: autograd's threads, once
    there, would be missing in a fork."""
    with tracing({}), torch.no_grad():
        x = torch.ones(8, 8, device=CUDA)
        torch.compile(lambda x: (x @ x).softmax(-1).sum())(x)
    reset_dynamo()


@contextlib.contextmanager
def compiling(config: Mapping[str, Any]) -> Iterator[None]:
    """Inductor with our settings and the caller's, over a backward too, which is lowered when it is first run."""
    with inductor_config.patch({**SETTINGS, **config}), functorch_config.patch(enable_autograd_cache=False):
        yield


def _not_loaded(graph: Any, code: Any) -> types.SimpleNamespace:
    """In place of GraphLowering._compile_to_module_lines: tells the listeners, loads nothing."""
    pieces = virtual_gpu_pieces()
    if pieces.GraphLowering.save_output_code is not None:
        pieces.GraphLowering.save_output_code(code.value)
    pieces.trace_structured("inductor_output_code", payload_fn=lambda: code.value)
    return types.SimpleNamespace(__file__="virtual", call=_returning(graph))


def _returning(graph: Any) -> Callable[[list[Any]], tuple[Any, ...]]:
    """A function that returns fake tensors as the graph's code would return real ones."""
    outputs = [_shape(output) for output in graph.graph_outputs]
    inputs = [_shape(value) for value in graph.graph_inputs.values()]
    passed_on = [_place_of_input(output, list(graph.graph_inputs)) for output in graph.graph_outputs]
    hint = getattr(graph.sizevars, "optimization_hint", None) or graph.sizevars.size_hint

    def call(args: list[Any]) -> tuple[Any, ...]:
        known = dict(pair for shape, arg in zip(inputs, args, strict=True) for pair in _bound(shape, arg))
        numbers = {symbol: each for symbol, each in known.items() if isinstance(each, int)}
        given = list(args)
        args.clear()

        def size(expression: Any) -> int | torch.SymInt:
            exact = expression.subs(numbers) if hasattr(expression, "subs") else expression
            free = getattr(exact, "free_symbols", ())
            if free and free <= known.keys():  # of sizes that hang on values: they stay symbols, the caller's own
                return symbolically(exact, known)
            return int(hint(exact) if free else exact)

        return tuple(
            given[place] if place is not None else _made(output, size)
            for output, place in zip(outputs, passed_on, strict=True)
        )

    return call


def _place_of_input(output: Any, names: list[str]) -> int | None:
    """Which input is given back as it came, if it is no tensor (a mesh, beside the tensors that lie on it)?"""
    if _shape(output) is not None:
        return None
    try:
        name = output.get_name()
    except (AttributeError, NotImplementedError):  # no result at all
        return None
    return names.index(name) if name in names else None


def _shape(value: Any) -> Any:
    """A tensor of the graph as (sizes, strides, dtype, device); a size as its expression; None for none."""
    try:
        return value.get_size(), value.get_stride(), value.get_dtype(), value.get_device()
    except (AttributeError, NotImplementedError):
        return getattr(value, "expr", None) if hasattr(value, "get_name") or hasattr(value, "expr") else value


def _bound(shape: Any, arg: Any) -> Iterator[tuple[Any, int]]:
    """Which symbol is which number in this call."""
    if isinstance(shape, tuple):
        yield from (
            (symbol, n) for symbol, n in zip(shape[0], arg.shape, strict=True) if getattr(symbol, "is_symbol", 0)
        )
    elif getattr(shape, "is_symbol", False):
        yield shape, arg


def _made(output: Any, size: Callable[[Any], int | torch.SymInt]) -> Any:
    if not isinstance(output, tuple):
        return None if output is None else size(output)
    sizes, strides, dtype, device = output
    return torch.empty_strided([*map(size, sizes)], [*map(size, strides)], dtype=dtype, device=device)
