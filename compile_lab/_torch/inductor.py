"""Private names of Inductor."""

import contextlib
import gc
import os
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._inductor.config

from ..doors import door

inductor_config = torch._inductor.config


def option_of(name: str) -> Any:
    """The value of one of Inductor's options, as ``triton.cudagraphs``; None where this torch has none of that name."""
    value: Any = inductor_config
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def searches_products() -> bool:
    """Whether max-autotune would search templates of matmuls on this GPU: Inductor asks for a number of
    multiprocessors. Its warning is left to the cell that meets it."""
    from torch._inductor import utils

    with mock.patch.object(utils.log, "disabled", True):
        return bool(utils.is_big_gpu.__wrapped__(0))


def inductor_cache_folder() -> Path:
    """Where Inductor keeps what it compiled, unless it is told otherwise by ``TORCHINDUCTOR_CACHE_DIR``."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return Path(default_cache_dir())


def inductor_settings() -> str:
    """What Inductor's code hangs on besides the program and the machine: its options, the number of threads for which
    it writes a CPU's loops, and whether torch is to be deterministic."""
    options = inductor_config.save_config_portable()
    options.pop("aot_inductor.metadata", None)  # a label; torch writes into its default
    return f"{sorted(options.items())}{torch.get_num_threads()}{torch.are_deterministic_algorithms_enabled()}"


def inductor_lowering() -> types.SimpleNamespace:
    """Inductor's classes between the post-grad graph and the generated code: imported on first use, it takes seconds.

    ``provenance_callers``: the modules through whose name ``set_kernel_post_grad_provenance_tracing`` is called, once
    for each kernel that the wrapper launches.
    """
    from torch._inductor import debug
    from torch._inductor.codegen import cpp, triton
    from torch._inductor.codegen.common import CSE
    from torch._inductor.codegen.triton import TritonScheduling
    from torch._inductor.graph import GraphLowering
    from torch._inductor.ir import Pointwise, Reduction
    from torch._inductor.loop_body import LightTracer as LoopTracer
    from torch._inductor.scheduler import NopKernelSchedulerNode, WhyNoFuse
    from torch._inductor.virtualized import V

    return types.SimpleNamespace(**locals(), provenance_callers=(debug, cpp, triton))


def inductor_modes() -> types.SimpleNamespace:
    """Inductor's modes, its caches, and the log in which it says why it skips CUDA graphs.

    ``clear_caches`` empties those in memory, ``fresh_cache`` also uses an empty folder while a block runs. Imported on
    first use, it takes seconds.
    """
    from torch._inductor import list_mode_options
    from torch._inductor.cudagraph_utils import cudagraphs_log
    from torch._inductor.utils import clear_caches, fresh_cache

    return types.SimpleNamespace(**locals())


def compile_workers_ready() -> None:
    """Wait until the processes that compile kernels are up: until then Inductor builds kernels in this process.

    They are started once a process, and torch lets them sleep when nothing has been compiled for a while.
    """
    from torch._inductor.async_compile import AsyncCompile, get_compile_threads

    if get_compile_threads() > 1:
        AsyncCompile.wait_pool_ready()
        AsyncCompile.process_pool().submit(AsyncCompile._get_ready).result(120)  # one that sleeps is woken by a job


@contextlib.contextmanager
def cache_folder(folder: Path) -> Iterator[None]:
    """Use this folder as Inductor's cache while the block runs, and nothing that is cached in memory before or after.

    Unlike torch's own ``fresh_cache`` it stays, so that what was compiled into it can be found again.
    """
    from torch._inductor.utils import clear_caches

    clear_caches()
    own = {"TORCHINDUCTOR_CACHE_DIR": str(folder), "TRITON_CACHE_DIR": str(folder / "triton")}
    try:
        with mock.patch.dict(os.environ, own):
            yield
    finally:
        clear_caches()


@door
@contextlib.contextmanager
def kernels_left_out() -> Iterator[None]:
    """What Inductor compiles for a CPU while the block runs asks for buffers, calls libraries and frees, and has no
    kernels: none is built, and what a kernel would write is left as it came from the allocator.

    The bytes that a compiled step asks for are measured in a part of the time; what it returns means nothing. Nothing
    is shared with code from before or after: no cache is read or written, and Dynamo forgets all functions, which are
    compiled again when they are next called.

    Raises RuntimeError where a kernel asks the allocator itself, as FlexAttention's does on a CPU: its bytes would be
    missing.

    >>> import torch
    >>> from compile_lab.memory import kernels_left_out, measure_peak
    >>> x = torch.ones(1000)
    >>> with kernels_left_out():
    ...     print(measure_peak(lambda: torch.compile(torch.exp)(x)).peak_nbytes)
    4000
    """
    from torch._functorch import config as functorch_config
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.utils import clear_caches

    def nothing(*arguments: Any) -> None:
        pass

    def left_out(compiler: AsyncCompile, types: list[str], source: str) -> Callable[..., None]:
        if "Allocator" in source:
            raise RuntimeError(
                "a kernel of this code asks the allocator for memory itself, which would not be seen without the "
                "kernel: measure it outside of kernels_left_out()"
            )
        return nothing

    def forget() -> None:
        torch.compiler.reset()
        clear_caches()

    forget()
    try:
        with (
            mock.patch.object(AsyncCompile, "cpp_pybinding", left_out),
            inductor_config.patch(fx_graph_cache=False),
            functorch_config.patch(enable_autograd_cache=False),
        ):
            yield
    finally:
        forget()


@contextlib.contextmanager
def searches_heard() -> Iterator[list[tuple[str, dict[str, float]]]]:
    """What max-autotune times while the block runs: for each search, its operator's name and milliseconds by kernel.

    A search whose answer is found in the cache is not heard.
    """
    from torch._inductor import select_algorithm

    heard: list[tuple[str, dict[str, float]]] = []

    def hear(timings: dict[Any, float], name: str, *rest: Any) -> None:
        heard.append((name, {choice.name: float(ms) for choice, ms in timings.items()}))

    select_algorithm.add_feedback_saver(hear)
    try:
        yield heard
    finally:
        select_algorithm.clear_feedback_savers()


def generated_sources(call: Callable[[], Any]) -> list[str]:
    """The source of each graph that Inductor compiles while ``call`` runs, in order; also of what its cache gives."""
    from torch._inductor.utils import run_and_get_code  # takes seconds to import

    return run_and_get_code(call)[1]


def inductor_partitioner(partition: Callable[..., Any]) -> Any:
    """A function in place of Inductor's partitioner, as its option ``custom_partitioner_fn`` wants it: called with the
    joint graph, after Inductor's passes over it.
    """
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

    class Partitioner(CustomPartitionerFn):
        def __call__(self, gm: torch.fx.GraphModule, joint_inputs: Any, **options: Any) -> Any:
            return partition(gm, joint_inputs, **options)

        def uuid(self) -> str:  # part of the key under which Inductor keeps what it compiled
            return "compile_lab: the min-cut partitioner, listened to"

        def __reduce__(self) -> tuple[Any, ...]:  # that key is a hash of the pickled options
            return str, (self.uuid(),)

    return Partitioner()


def launched_kernels() -> list[dict[str, Any]]:
    """Inductor's Triton kernels that have run in this process and are still there, as plain JSON values.

    Each with its `name`, `signature` (as the generated code writes it), the `configuration` that autotuning chose, and
    what the driver says of the loaded kernel: `registers` a thread, `spills`, `shared_nbytes`. Empty without a GPU.
    """
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner  # takes seconds to import

    # Not by way of PyCodeCache: with caches off (torch 2.11) it forgets a module as soon as it is loaded.
    tuned = [each for each in gc.get_objects() if type(each) is CachingAutotuner and each.launchers]
    return [
        {
            "name": kernel.inductor_meta["kernel_name"],
            "signature": repr(kernel.triton_meta["signature"]),
            "configuration": {
                **launcher.config.kwargs,
                "num_warps": launcher.config.num_warps,
                "num_stages": launcher.config.num_stages,
            },
            "registers": launcher.n_regs,
            "spills": launcher.n_spills,
            "shared_nbytes": launcher.shared,
        }
        for kernel in tuned
        for launcher in kernel.launchers[:1]
    ]


def generated_graphs(call: Callable[[], Any]) -> list[tuple[str, dict[str, tuple[tuple[Any, ...], torch.dtype]]]]:
    """Of each graph that Inductor compiles while ``call`` runs the source, and shape and dtype of every buffer in it.

    By name, inputs included. Nothing comes from Inductor's caches, which keep no sizes.
    """
    from torch._functorch import config as functorch_config
    from torch._inductor.graph import GraphLowering  # takes seconds to import
    from torch._inductor.virtualized import V

    found: list[tuple[str, dict[str, tuple[tuple[Any, ...], torch.dtype]]]] = []
    plain = GraphLowering.save_output_code

    def kept(source: str) -> None:
        if plain is not None:  # somebody else listens, too
            plain(source)
        named = {**V.graph.graph_inputs, **V.graph.name_to_buffer}
        found.append((source, {name: size for name, each in named.items() if (size := _shape_and_dtype(each))}))

    with (
        mock.patch.object(GraphLowering, "save_output_code", staticmethod(kept)),
        inductor_config.patch(fx_graph_cache=False),
        functorch_config.patch(enable_autograd_cache=False),
    ):
        call()
    return found


def _shape_and_dtype(buffer: Any) -> tuple[tuple[Any, ...], torch.dtype] | None:
    """None for what is no tensor: a mesh, a result of several."""
    try:
        return tuple(map(_number, buffer.get_size())), buffer.get_dtype()
    except (AttributeError, NotImplementedError):
        return None


def _number(size: Any) -> Any:
    """As an int; a size that is a symbol is text."""
    return int(size) if getattr(size, "is_number", isinstance(size, int)) else str(size)
