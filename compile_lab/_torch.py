"""Every private name of torch that the instruments use.

Nothing else in compile_lab imports from ``torch._dynamo``, ``torch._inductor``, ``torch._functorch`` or
``torch._logging``. A test asks each name here for what the instruments expect of it, so a torch that moved one is
told at once and by name. Written for torch 2.13, run on 2.11, meant for 2.10 and later.
"""

import contextlib
import gc
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config
from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list as cache_entries
from torch._dynamo import graph_break
from torch._dynamo import reset as reset_dynamo
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.convert_frame import register_bytecode_hook
from torch._dynamo.guards import get_guard_fail_reason
from torch._guards import CompileContext
from torch._logging._internal import trace_log
from torch.utils._python_dispatch import _get_current_dispatch_mode

REGION_ENTERED = "record_pregraph_bytecode_enter"
"""The function of ``torch._dynamo.utils`` that Dynamo's bytecode calls each time it is about to run a graph."""

dynamo_config = torch._dynamo.config
functorch_config = torch._functorch.config
inductor_config = torch._inductor.config


DisableTorchFunction = torch._C.DisableTorchFunction
"""While a block runs, torch's functions are not handed to a TorchFunctionMode or to ``__torch_function__``."""

current_autograd_node = torch._C._current_autograd_node
"""The autograd node that this thread is running, or None outside of a backward."""


def autograd_sequence_nr() -> int:
    """The number that this thread's next autograd node will get; a node's own is its ``_sequence_nr()``."""
    return torch.autograd._get_sequence_nr()


scaled_mm = torch._scaled_mm
"""The product of two fp8 matrices, the second stored column by column, with a scale for each; CPU and GPU."""


def operator_names(namespace: str) -> list[str]:
    """Every operator known to the dispatcher in a namespace, with its overload: ``aten::add.Tensor``, sorted."""
    return sorted(name for name in torch._C._dispatch_get_all_op_names() if name.startswith(f"{namespace}::"))


def operator_table(op: str) -> dict[str, str]:
    """The dispatcher's table for one operator: for each dispatch key, what stands there and in brackets why."""
    return dict(line.split(": ", 1) for line in torch._C._dispatch_dump_table(op).splitlines())


def is_composite(op: Any) -> bool:
    """True for an operator overload that is made of others: what it returns may be a view or a copy."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")


def fake_tensors(allow_real: bool = False) -> AbstractContextManager[Any]:
    """While the block runs, new tensors have a shape, a dtype and a device, and no memory.

    With ``allow_real`` an operation may also read real tensors, of which it then takes the shape.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=allow_real)


def fake_group(devices: int, rank: int) -> None:
    """Initialise torch.distributed with a group whose collectives return at once and move nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=rank, world_size=devices, store=FakeStore())


def process_group(name: str) -> "torch.distributed.ProcessGroup":
    """The process group of that name, as a functional collective is handed it."""
    return torch.distributed.distributed_c10d._resolve_process_group(name)


def profiler_events(profiler: torch.profiler.profile) -> list[Any]:
    """The roots of the tree of what a profiler saw, once it has stopped; with ``profile_memory``, allocations too."""
    return profiler.profiler.kineto_results.experimental_event_tree()


@contextlib.contextmanager
def cuda_history() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The caching allocator's history while the block runs: a function that gives its entries so far, in order.

    Each is a dict with ``action`` ("alloc", "free_requested", …), ``addr``, ``size`` in bytes, and Python ``frames``.
    """
    memory, device = torch.cuda.memory, torch.cuda.current_device()
    memory._record_memory_history(enabled="all", stacks="python", max_entries=1_000_000)
    try:
        yield lambda: memory._snapshot()["device_traces"][device]
    finally:
        memory._record_memory_history(enabled=None)


def dispatch_mode_is_active() -> bool:
    """True inside a TorchDispatchMode, under which torch.compile silently runs eager."""
    return _get_current_dispatch_mode() is not None


def aot_pieces() -> types.SimpleNamespace:
    """AOTAutograd as a backend, its two partitioners, and what Inductor does to a joint graph before them: its
    decompositions and its passes. Imported on first use, it takes a second or two.
    """
    from torch._dynamo.backends import common, debugging
    from torch._functorch import partitioners
    from torch._guards import detect_fake_mode
    from torch._inductor import decomposition
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.virtualized import V

    def joint_graph_passes(joint: torch.fx.GraphModule) -> None:
        values = [node.meta.get("val") for node in joint.graph.find_nodes(op="placeholder")]
        with V.set_fake_mode(detect_fake_mode(values)):  # without it, a graph that draws random numbers fails
            joint_graph.joint_graph_passes(joint)

    return types.SimpleNamespace(
        aot_autograd=common.aot_autograd,
        boxed_nop=debugging.boxed_nop,
        default_partition=partitioners.default_partition,
        min_cut_partition=partitioners.min_cut_rematerialization_partition,
        op_types=partitioners.get_default_op_list,
        partitioner_log=partitioners.log,
        decompositions=decomposition.select_decomp_table,
        joint_graph_passes=joint_graph_passes,
    )


def inductor_lowering() -> types.SimpleNamespace:
    """Inductor's classes between the post-grad graph and the generated code: imported on first use, it takes seconds.

    ``provenance_callers``: the modules through whose name ``set_kernel_post_grad_provenance_tracing`` is called, once
    for each kernel that the wrapper launches.
    """
    from torch._inductor import debug, ir, scheduler
    from torch._inductor.codegen import common, cpp, triton
    from torch._inductor.graph import GraphLowering
    from torch._inductor.loop_body import LightTracer
    from torch._inductor.virtualized import V

    return types.SimpleNamespace(
        GraphLowering=GraphLowering,
        NopKernelSchedulerNode=scheduler.NopKernelSchedulerNode,
        TritonScheduling=triton.TritonScheduling,
        WhyNoFuse=scheduler.WhyNoFuse,
        Pointwise=ir.Pointwise,
        Reduction=ir.Reduction,
        LoopTracer=LightTracer,
        CSE=common.CSE,
        V=V,
        provenance_callers=(debug, cpp, triton),
    )


def compiled_backward(compiler: Callable[..., Any]) -> AbstractContextManager[None]:
    """While the block runs, a backward is captured as a whole, accumulation into ``.grad`` included, and handed to
    ``compiler``, which is what ``torch.compile()`` without a function gives. Imported on first use.
    """
    from torch._dynamo import compiled_autograd

    return compiled_autograd._enable(compiler, dynamic=False)


def inductor_modes() -> types.SimpleNamespace:
    """Inductor's modes, its caches, and the log in which it says why it skips CUDA graphs.

    ``clear_caches`` empties those in memory, ``fresh_cache`` also uses an empty folder while a block runs. Imported on
    first use, it takes seconds.
    """
    from torch._inductor import cudagraph_utils, list_mode_options, utils

    return types.SimpleNamespace(
        list_mode_options=list_mode_options,
        clear_caches=utils.clear_caches,
        fresh_cache=utils.fresh_cache,
        cudagraphs_log=cudagraph_utils.cudagraphs_log,
    )


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


def virtual_gpu_pieces() -> types.SimpleNamespace:
    """What a virtual GPU replaces or asks: fake tensors, Inductor's lowering and loader, Triton's driver; slow.

    ``modules_that_remember`` keep the answer of functions that ask whether there is a GPU.
    """
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor import async_compile, compile_fx, output_code
    from torch._inductor import utils as inductor_utils
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder
    from torch._inductor.graph import GraphLowering
    from torch._inductor.runtime.hints import DeviceProperties
    from torch._logging import trace_structured
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    from torch.utils import _triton as triton_utils
    from triton.backends.compiler import GPUTarget
    from triton.runtime.cache import triton_key
    from triton.runtime.driver import driver

    inductor_lowering(), triton_key()  # slow the first time (the key is a hash of all of Triton's files), kept after it
    return types.SimpleNamespace(
        AsyncCompile=async_compile.AsyncCompile,
        CudaInterface=CudaInterface,
        DeviceProperties=DeviceProperties,
        FakeTensorMode=FakeTensorMode,
        GPUTarget=GPUTarget,
        GraphLowering=GraphLowering,
        ShapeEnv=ShapeEnv,
        UniformValueConstantFolder=UniformValueConstantFolder,
        compile_fx=compile_fx,
        modules_that_remember=(triton_utils, inductor_utils),
        output_code=output_code,
        trace_structured=trace_structured,
        triton_driver=driver,
    )


def triton_helpers() -> types.ModuleType:
    """What every Triton kernel of Inductor's imports; it looks for a GPU's driver when the kernel is defined."""
    from torch._inductor.runtime import triton_helpers

    return triton_helpers


_PIPELINE_KINDS = {"FORWARD": "F", "FULL_BACKWARD": "B", "BACKWARD_INPUT": "I", "BACKWARD_WEIGHT": "W"}


def pipeline_orders(schedule: str, ranks: int, microbatches: int) -> list[list[tuple[str, int, int]]]:
    """What each rank of a pipeline computes under one of torch's schedules, in order: kind, stage, micro-batch.

    Kinds are F, B (whole backward), I and W (its two halves). Two stages a rank, where the schedule takes several; a
    forward and a backward that overlap (DualPipeV) come one after the other. Raises what torch raises for sizes that a
    schedule cannot run. Imported on first use.
    """
    from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops

    kinds, orders = _PIPELINE_KINDS, []
    for order in get_schedule_ops(schedule, ranks, microbatches):
        parts = [part for action in order if action for part in action.sub_actions or (action,)]
        computing = [part for part in parts if part.computation_type.name in kinds]
        orders.append([(kinds[p.computation_type.name], p.stage_index, p.microbatch_index) for p in computing])
    return orders


def pipeline_pairs(schedule: str, ranks: int, microbatches: int) -> set[tuple[str, int, int]]:
    """The actions of ``pipeline_orders`` that torch makes one of with the next, as DualPipeV does: nothing is sent
    between the two, so what the first made goes out when the second is done.
    """
    from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops

    actions = [action for order in get_schedule_ops(schedule, ranks, microbatches) for action in order if action]
    firsts = [action.sub_actions[0] for action in actions if action.sub_actions]
    return {(_PIPELINE_KINDS[part.computation_type.name], part.stage_index, part.microbatch_index) for part in firsts}


def pipeline_receives(schedule: str, ranks: int, microbatches: int) -> list[list[tuple[bool, str, int, int]]]:
    """``pipeline_orders`` with the receives in between, where torch's runtime posts them: is it one, and then what it
    waits for, the action of a neighbouring stage (F, or B for whichever gradient of the input). Several stages a rank.
    """
    from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops

    posted = {"RECV_F": ("F", -1), "RECV_B": ("B", 1)}
    orders = []
    for order in get_schedule_ops(schedule, ranks, microbatches, with_comms=True):
        parts = [part for action in order if action for part in action.sub_actions or (action,)]
        named = [(part.computation_type.name, part.stage_index, part.microbatch_index) for part in parts]
        orders.append(
            [
                (True, posted[name][0], stage + posted[name][1], m)
                if name in posted
                else (False, _PIPELINE_KINDS[name], stage, m)
                for name, stage, m in named
                if name in posted or name in _PIPELINE_KINDS
            ]
        )
    return orders


def pipeline_sends_to_itself() -> bool:
    """True where a rank with two neighbouring stages sends a message to itself before the first step (torch 2.11)."""
    from torch.distributed.pipelining import PipelineStage

    return not hasattr(PipelineStage, "_warmup_forward_vote")  # what took the place of those messages


def interpreter_pieces() -> types.SimpleNamespace:
    """What running generated code on the CPU replaces or asks: the wrapper's allocator, the kernels' decorators."""
    from torch._guards import TracingContext, tracing
    from torch._inductor.runtime import triton_helpers, triton_heuristics
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.utils._pytree import tree_leaves, tree_map_only

    return types.SimpleNamespace(
        TracingContext=TracingContext,
        guards=torch._C._dynamo.guards,
        torch_c=torch._C,
        tracing=tracing,
        tree_leaves=tree_leaves,
        tree_map_only=tree_map_only,
        triton_helpers=triton_helpers,
        triton_heuristics=triton_heuristics,
        unset_fake_temporarily=unset_fake_temporarily,
    )


__all__ = [
    "REGION_ENTERED",
    "CompileContext",
    "DisableTorchFunction",
    "aot_pieces",
    "autograd_sequence_nr",
    "cache_entries",
    "compiled_backward",
    "cuda_history",
    "current_autograd_node",
    "dispatch_mode_is_active",
    "dynamo_config",
    "dynamo_utils",
    "fake_group",
    "fake_tensors",
    "functorch_config",
    "generated_sources",
    "get_guard_fail_reason",
    "graph_break",
    "inductor_config",
    "inductor_lowering",
    "inductor_modes",
    "inductor_partitioner",
    "interpreter_pieces",
    "is_composite",
    "launched_kernels",
    "operator_names",
    "operator_table",
    "pipeline_orders",
    "pipeline_pairs",
    "pipeline_receives",
    "pipeline_sends_to_itself",
    "process_group",
    "profiler_events",
    "register_bytecode_hook",
    "reset_dynamo",
    "scaled_mm",
    "trace_log",
    "triton_helpers",
    "virtual_gpu_pieces",
]
