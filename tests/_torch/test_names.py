"""One test for each private name of torch: a torch that moved one is told here, by name, before a chapter is."""

import ast
import contextlib
import inspect
import itertools
import logging
import os
import pickle
import re
import sys
import time
import types
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch._dynamo import utils as dynamo_utils
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import compile_lab
from compile_lab._torch import aot, caches, dispatcher, distributed, dynamo, inductor, opinfo, virtual_gpu

pytestmark = pytest.mark.processes

PACKAGE = Path(compile_lab.__file__).parent
PRIVATE_NAMES = sorted((PACKAGE / "_torch").glob("*.py"))


@pytest.mark.parametrize(
    ("config", "option", "value"),
    [
        (dynamo.dynamo_config, "recompile_limit", 3),
        (dynamo.dynamo_config, "fail_on_recompile_limit_hit", True),
        (inductor.inductor_config, "force_disable_caches", True),
        (aot.functorch_config, "activation_memory_budget", 0.5),
        (aot.functorch_config, "enable_autograd_cache", False),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_config_can_be_patched(config, option, value):
    before = getattr(config, option)
    with config.patch({option: value}):
        assert getattr(config, option) == value
    assert getattr(config, option) == before != value


def test_an_option_of_inductors_has_a_value_and_one_that_is_none_has_none():
    for value in (True, False):
        with inductor.inductor_config.patch({"triton.mix_order_reduction": value}):
            assert inductor.option_of("triton.mix_order_reduction") is value
    assert inductor.option_of("triton.no_such") is inductor.option_of("no_such.either") is None


def test_whether_products_are_searched_hangs_on_the_number_of_multiprocessors():
    from compile_lab.virtual_gpu import run

    assert [run(chip, inductor.searches_products) for chip in ("T4", "H200")] == [False, True]


def test_reset_dynamo_forgets_compiled_code():
    made = []
    fn = torch.compile(lambda x: x + 1, backend=lambda module, _: made.append(1) or module.forward)
    for _ in range(2):
        fn(torch.ones(2))
        dynamo.reset_dynamo()
    assert len(made) == 2


def test_what_cannot_be_one_graph_is_told_by_an_error_of_its_own():
    with pytest.raises(dynamo.NotOneGraphError):
        torch.compile(lambda x: print(x), backend="eager", fullgraph=True)(torch.ones(2))


def test_the_bytecode_hook_sees_old_and_new_code():
    seen = []
    handle = dynamo.register_bytecode_hook(lambda old, new: seen.append((old.co_name, new)))
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(handle.remove)
        torch.compile(lambda x: x * 3, backend="eager")(torch.ones(2))
    assert [name for name, _ in seen] == ["<lambda>"]


def test_graph_calls_are_counted_where_blocks_overlap_and_nothing_is_left_behind():
    asked = dynamo_utils.record_pregraph_bytecode_enter, torch.autograd.profiler._is_profiler_enabled
    first, second = [], []
    one = dynamo.graph_calls_counted(lambda: first.append(1))
    other = dynamo.graph_calls_counted(lambda: second.append(1))
    fn = torch.compile(lambda x: x * 5, backend="eager")
    one.__enter__()
    other.__enter__()
    fn(torch.ones(2))
    one.__exit__(None, None, None)
    fn(torch.ones(2))
    other.__exit__(None, None, None)
    assert (len(first), len(second)) == (1, 2)
    assert (dynamo_utils.record_pregraph_bytecode_enter, torch.autograd.profiler._is_profiler_enabled) == asked


def test_counting_graph_calls_starts_no_profiler_and_outlives_one():
    profiler, counted = torch.autograd.profiler, []
    fn = torch.compile(lambda x: x * 5, backend="eager")
    with dynamo.graph_calls_counted(lambda: counted.append(1)):
        assert not torch._C._autograd._profiler_enabled()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            fn(torch.ones(2))
        fn(torch.ones(2))
    assert len(counted) == 2 and not profiler._is_profiler_enabled
    block = dynamo.graph_calls_counted(lambda: None)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        block.__enter__()
    block.__exit__(None, None, None)
    assert not profiler._is_profiler_enabled, "the profiler stopped while the block ran"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        with dynamo.graph_calls_counted(lambda: None):
            pass
        assert profiler._is_profiler_enabled, "the profiler still runs"


def test_a_backend_knows_the_frame_it_compiles():
    frames = []

    def backend(module, _):
        frames.append(str(dynamo.CompileContext.current_compile_id()))
        return module.forward

    torch.compile(lambda x: x * 7, backend=backend)(torch.ones(2))
    assert frames == ["0/0"]


def test_cache_entries_hold_guards_that_can_be_asked():
    def scaled(x, n):
        return x * n

    torch.compile(scaled, backend="eager")(torch.ones(2), 3)
    (entry,) = dynamo.cache_entries(scaled.__code__)
    assert str(entry.compile_id) == "0/0"
    fits, fails = {"x": torch.ones(2), "n": 3}, {"x": torch.ones(2), "n": 4}
    assert entry.guard_manager.check(fits) and not entry.guard_manager.check(fails)
    asked = entry.guard_manager, scaled.__code__, fails, entry.compile_id, entry.backend
    assert dynamo.get_guard_fail_reason(*asked, skip_logging=True).startswith("0/0: n == 3 ")


def test_generated_graphs_come_with_shape_and_type_of_each_buffer_and_never_from_a_cache():
    x = torch.ones(4, 3, dtype=torch.bfloat16, requires_grad=True)
    for _ in range(2):  # the second time Inductor's cache has both graphs, and is not asked
        dynamo.reset_dynamo()
        compiled = torch.compile(lambda x: x.float().sin().sum())
        forward, backward = inductor.generated_graphs(lambda compiled=compiled: compiled(x).backward())
        for source, sizes in (forward, backward):
            assert "def call(" in source and ((4, 3), torch.bfloat16) in sizes.values()
        assert ((), torch.float32) in forward[1].values()
    dynamo.reset_dynamo()
    sources = inductor.generated_sources(lambda: torch.compile(lambda x: x.float().sin().sum())(x).backward())
    assert len(sources) == 2 and all("def call(" in source for source in sources), "from the cache, too"


def test_modes_are_seen_and_kept_out():
    class Functions(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise AssertionError("the mode was asked")

    class Dispatched(TorchDispatchMode):
        pass

    with Functions(), dispatcher.DisableTorchFunction():
        assert torch.ones(2).sin().grad_fn is None
    assert not dispatcher.dispatch_mode_is_active()
    with Dispatched():
        assert dispatcher.dispatch_mode_is_active()


def test_the_running_autograd_node_is_known():
    nodes = []
    x = torch.ones(2, requires_grad=True)
    y = x.sin()
    y.register_hook(lambda _: nodes.append(dispatcher.current_autograd_node()))
    y.sum().backward()
    assert [node.name() for node in nodes] == ["SinBackward0"] and dispatcher.current_autograd_node() is None


def test_the_dispatcher_lists_its_operators_and_their_tables():
    names = dispatcher.operator_names("aten")
    assert "aten::add.Tensor" in names and len(names) > 2000
    assert dispatcher.operator_table("aten::linear")["AutogradCPU"].endswith("[math kernel]")
    assert dispatcher.operator_table("aten::addmm")["ADInplaceOrView"].startswith("fallthrough")


def test_the_product_of_fp8_matrices_is_that_of_their_values():
    if torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("fp8 products need compute capability 8.9")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(32, 32, device=device).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device=device)
    found = dispatcher.scaled_mm(a, b.t(), scale_a=one, scale_b=2 * one, out_dtype=torch.bfloat16)
    torch.testing.assert_close(found.float(), 2 * a.float() @ b.float().t(), rtol=1e-2, atol=1e-1)


def test_what_torch_warns_of_once_is_told_again_after_forget_warnings():
    def told():
        dynamo.reset_dynamo()
        with mock.patch.object(torch._dynamo.variables.tensor.log, "warning") as logged:
            torch.compile(lambda x: x / x.max().item(), backend="eager")(torch.ones(2))
        return logged.call_count

    dynamo.forget_warnings()
    assert [told(), told()] == [1, 0]
    dynamo.forget_warnings()
    assert told() == 1


def test_kernels_left_out_are_neither_built_nor_kept():
    def added(x):
        return x + 1

    with inductor.kernels_left_out():
        assert torch.compile(added)(torch.ones(8)).shape == (8,)
    assert torch.equal(torch.compile(added)(torch.ones(8)), torch.full((8,), 2.0))


def test_launched_kernels_are_those_that_inductor_loaded_and_tuned():
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    chosen = types.SimpleNamespace(kwargs={"XBLOCK": 1}, num_warps=4, num_stages=2)
    kernel = CachingAutotuner.__new__(CachingAutotuner)  # loading one takes a GPU
    kernel.inductor_meta = {"kernel_name": "triton_red_0"}
    kernel.triton_meta = {"signature": {"in_ptr0": "*bf16"}}
    kernel.launchers = [types.SimpleNamespace(config=chosen, n_regs=32, n_spills=0, shared=64)]
    (found,) = (each for each in inductor.launched_kernels() if each["name"] == "triton_red_0")
    assert found["signature"] == "{'in_ptr0': '*bf16'}"
    assert found["configuration"] == {"XBLOCK": 1, "num_warps": 4, "num_stages": 2}
    assert (found["registers"], found["spills"], found["shared_nbytes"]) == (32, 0, 64)


def test_aot_pieces_make_a_backend_that_splits_the_joint_graph():
    pieces, split = aot.aot_pieces(), []

    def partition(joint, inputs, **options):
        pieces.joint_graph_passes(joint)
        split.append(options["num_fwd_outputs"])
        choose = pieces.default_partition if len(split) == 1 else pieces.min_cut_partition
        return choose(joint, inputs, **options)

    for _ in range(2):
        dynamo.reset_dynamo()
        nop = pieces.boxed_nop
        backend = pieces.aot_autograd(
            fw_compiler=nop, bw_compiler=nop, partition_fn=partition, decompositions=pieces.decompositions()
        )
        x = torch.ones(3, requires_grad=True)
        torch.compile(lambda x: x.sin().sum(), backend=backend)(x).backward()
        torch.testing.assert_close(x.grad, torch.ones(3).cos())
    assert split == [1, 1] and isinstance(pieces.partitioner_log, logging.Logger)
    assert torch.ops.aten.mm in pieces.op_types().compute_intensive_ops


def test_inductors_modes_folder_and_partitioner(monkeypatch):
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    folder = inductor.inductor_cache_folder()
    assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ, "asking changes nothing"
    assert folder == Path(cache_dir())
    found = inductor.inductor_modes()
    assert found.list_mode_options("reduce-overhead") == {"triton.cudagraphs": True}
    assert isinstance(found.cudagraphs_log, logging.Logger)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "kept")
    with found.fresh_cache():
        assert os.environ["TORCHINDUCTOR_CACHE_DIR"] != "kept"
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "kept"
    found.clear_caches()
    partitioner = inductor.inductor_partitioner(lambda joint, inputs, **options: (joint, options))
    assert partitioner("joint", (), num_fwd_outputs=1) == ("joint", {"num_fwd_outputs": 1})
    assert inductor.inductor_config.custom_partitioner_fn is None
    assert pickle.dumps(partitioner) and partitioner.uuid(), "Inductor's caches name it"


def test_compile_workers_ready_waits_for_the_pool(monkeypatch):
    from torch._inductor.async_compile import AsyncCompile

    asked = []
    monkeypatch.setattr("torch._inductor.async_compile.get_compile_threads", lambda: 2)
    monkeypatch.setattr(AsyncCompile, "wait_pool_ready", lambda: asked.append("ready"))
    pool = mock.Mock()
    monkeypatch.setattr(AsyncCompile, "process_pool", lambda: pool)
    inductor.compile_workers_ready()
    pool.submit.assert_called_once_with(AsyncCompile._get_ready)
    assert asked == ["ready"]


def test_inductor_settings_are_other_ones_with_another_option_or_number_of_threads():
    before, threads = inductor.inductor_settings(), torch.get_num_threads()
    with inductor.inductor_config.patch(max_fusion_size=7):
        assert inductor.inductor_settings() != before
    torch.set_num_threads(threads + 1)
    try:
        assert inductor.inductor_settings() != before
    finally:
        torch.set_num_threads(threads)
    assert inductor.inductor_settings() == before


def test_searches_heard_are_those_of_the_block():
    from torch._inductor import select_algorithm

    cache = select_algorithm.get_algorithm_selector_cache()
    kernel = mock.Mock()
    kernel.name = "triton_mm_1"
    with inductor.searches_heard() as heard:
        cache.feedback_saver_fns[-1]({kernel: 2}, "mm", None)
    assert heard == [("mm", {"triton_mm_1": 2.0})] and not cache.feedback_saver_fns


def test_each_bundle_of_pieces_is_still_to_be_had():
    """Each import of a bundle is made when it is asked for; the instruments' tests do the rest."""
    assert isinstance(dynamo.trace_log, logging.Logger)
    assert callable(virtual_gpu.triton_helpers().set_driver_to_gpu)
    parts = inductor.inductor_lowering()
    for module in parts.provenance_callers:  # replaced: where it is called otherwise, launches are only not seen
        parameters = inspect.signature(module.set_kernel_post_grad_provenance_tracing).parameters
        assert list(parameters) == ["node_schedule", "kernel_name", "is_extern"]
    pieces = virtual_gpu.virtual_gpu_pieces()
    with pieces.FakeTensorMode(shape_env=pieces.ShapeEnv()):
        assert torch.empty(2, device="cpu").size() == (2,)
    pieces = virtual_gpu.interpreter_pieces()
    with pieces.tracing(pieces.TracingContext(None)), pieces.unset_fake_temporarily():
        assert torch.empty(2).size() == (2,)
    zero, one, again = (caches.inputs_hash(device) for device in ("cuda:0", "cuda:1", "cuda:0"))
    assert zero == again != one


def test_every_name_has_its_test():
    source = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    missing = [name for file in PRIVATE_NAMES for name in offered(file) if name not in source]
    assert not missing, f"no test asks for {missing}"


def offered(file: Path) -> list[str]:
    """The public names that a file of _torch defines or, where it only passes them on, lists."""
    names = []
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names += ast.literal_eval(node.value)
        elif isinstance(node, ast.Assign):
            names.append(ast.unparse(node.targets[0]))
    return [name for name in names if not name.startswith("_")]


def test_a_parametrized_module_is_made_again_of_its_class_and_state():
    module = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 2))
    again = virtual_gpu.parametrized_again(torch.nn.Linear, dict(module.__dict__), ("weight",))
    x = torch.randn(4, 3)
    assert isinstance(again, torch.nn.Linear) and type(again) is not torch.nn.Linear
    assert torch.equal(again(x), module(x)) and "weight" not in again._parameters


def test_the_next_autograd_nodes_number_is_told():
    expected = dispatcher.autograd_sequence_nr()
    node = torch.ones(2, requires_grad=True).sin().grad_fn
    assert node._sequence_nr() == expected and dispatcher.autograd_sequence_nr() == expected + 1


def test_a_composite_operator_is_told_from_one_with_a_kernel():
    aten = torch.ops.aten
    assert dispatcher.is_composite(aten.reshape.default) and dispatcher.is_composite(aten.contiguous.default)
    assert not dispatcher.is_composite(aten.view.default) and not dispatcher.is_composite(aten.mm.default)


def test_fake_tensors_have_a_size_and_no_memory_and_meet_real_ones_where_they_may():
    with dispatcher.fake_tensors():
        x = torch.empty(10**12)
        assert (x + x).untyped_storage().nbytes() == 4 * 10**12
        with dispatcher.without_fakes():
            real = torch.tensor([3])
        assert real.tolist() == [3] and type(real) is torch.Tensor
        assert type(torch.tensor([3])) is not torch.Tensor
    with dispatcher.fake_tensors(allow_real=True):
        assert (torch.empty(10**12, 2) @ torch.ones(2)).shape == (10**12,)


def test_new_tensors_are_as_fake_as_those_that_are_there():
    with dispatcher.fake_tensors():
        there = torch.nn.Parameter(torch.ones(3))
    with dispatcher.among_fakes([torch.ones(1), there]):
        assert (torch.ones(3) + there).shape == (3,)
    with dispatcher.among_fakes([torch.ones(1)]):
        assert torch.ones(3).sum().item() == 3


def test_a_fake_group_is_as_large_as_one_likes_and_its_groups_have_names():
    import torch.distributed as dist

    distributed.fake_group(16_384, rank=5)
    try:
        assert dist.get_rank() == 5 and dist.get_world_size() == 16_384
        group = dist.new_group([4, 5, 6])
        assert distributed.process_group(group.group_name) is group
        x = torch.ones(3)
        dist.all_reduce(x)
        assert x.tolist() == [1, 1, 1]
    finally:
        dist.destroy_process_group()


def test_the_profilers_tree_holds_allocations_with_address_and_size():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        torch.empty(1000)
    waiting, found = list(dispatcher.profiler_events(profiler)), []
    while waiting:
        event = waiting.pop()
        waiting += event.children
        if str(event.tag).endswith("Allocation"):
            assert event.start_time_ns and event.extra_fields.device.type == "cpu"
            found.append((event.extra_fields.ptr, event.extra_fields.alloc_size))
    (address, size), (freed, given_back) = sorted(found, key=lambda each: -each[1])
    assert address == freed and size == -given_back == 4000


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the history is a GPU's")
def test_the_caching_allocators_history_has_requests_in_bytes():
    with dispatcher.cuda_history() as history:
        x = torch.empty(1000, device="cuda")
        address = x.data_ptr()
        del x
        entries = [each for each in history() if each["addr"] == address]
    assert [each["action"] for each in entries] == ["alloc", "free_requested", "free_completed"]
    assert entries[0]["size"] == 4000 and entries[0]["frames"]


def test_torchs_schedules_are_told_as_kind_stage_and_micro_batch():
    assert distributed.pipeline_orders("GPipe", 2, 1) == [[("F", 0, 0), ("B", 0, 0)], [("F", 1, 0), ("B", 1, 0)]]
    first, second = distributed.pipeline_receives("LoopedBFS", 2, 1)
    assert first[:3] == [(False, "F", 0, 0), (True, "F", 1, 0), (False, "F", 2, 0)]
    assert second[0] == (True, "F", 0, 0) and (True, "B", 2, 0) in second


def test_actions_that_torch_makes_one_of_are_told_by_the_first():
    pairs = distributed.pipeline_pairs("DualPipeV", 2, 4)
    assert pairs and {kind for kind, _, _ in pairs} == {"F"}
    for order in distributed.pipeline_orders("DualPipeV", 2, 4):
        after = [other[0] for one, other in itertools.pairwise(order) if one in pairs]
        assert set(after) == {"B"}
    assert not distributed.pipeline_pairs("ZBVZeroBubble", 2, 4)


def test_a_rank_with_neighbouring_stages_sends_to_itself_before_torch_2_12():
    assert distributed.pipeline_sends_to_itself() == (torch.__version__ < (2, 12))


def test_operators_are_torchs_own_with_their_variants_and_samples():
    found = opinfo.operators()
    assert len(found) > 600 and {"sum", "nn.functional.pad.circular", "nn.functional.mse_loss"} <= set(found)
    sample = next(iter(found["sum"].sample_inputs("cpu", torch.float64)))
    assert isinstance(sample.input, torch.Tensor) and torch.float64 in found["sum"].dtypes


def test_samples_with_sides_of_a_length_have_them_and_only_in_the_block():
    def sides():
        made = opinfo.operators()["cumsum"].sample_inputs("cpu", torch.float64)
        return {size for sample in made for size in sample.input.shape}

    with opinfo.samples_with_sides_of(4):
        assert sides() == {4}
    assert sides() == {5}


def test_strategies_told_are_those_that_dtensor_chooses_from_each_time_anew():
    from torch.distributed.tensor import Shard, init_device_mesh
    from torch.distributed.tensor import distribute_tensor as spread

    told = []
    distributed.fake_group(4, 0)
    try:
        mesh = init_device_mesh("cpu", (4,))
        x = spread(torch.ones(8, 8), mesh, [Shard(0)], src_data_rank=None)
        for _ in range(2):
            with distributed.strategies_told(lambda *each: told.append(each)):
                x @ x
                x @ x
        distributed.forget_strategies()
    finally:
        torch.distributed.destroy_process_group()
    assert [str(schema.op) for schema, _, _ in told] == ["aten.mm.default"] * 2
    schema, strategies, chosen = told[0]
    assert chosen in strategies and len(schema.args_spec) == len(chosen.input_specs) == len(chosen.redistribute_cost)


@contextlib.contextmanager
def _rows_on_imaginary_ranks():
    from torch.distributed.tensor import Shard, init_device_mesh
    from torch.distributed.tensor import distribute_tensor as spread

    distributed.fake_group(2, 0)
    try:
        mesh = init_device_mesh("cpu", (2,))
        yield spread(torch.ones(4, 8, requires_grad=True), mesh, [Shard(0)], src_data_rank=None)
    finally:
        torch.distributed.destroy_process_group()


def test_implicit_redistributions_are_told_with_their_specs_and_written_ones_are_not():
    from torch.distributed.tensor import Replicate

    told = []

    def tell(operator, argument, source, target, move):
        told.append((str(operator), argument, tuple(map(str, source.placements + target.placements))))
        return move()

    with _rows_on_imaginary_ranks() as x:
        with distributed.redistributions_told(tell):
            gathered = x.softmax(0)
            x.redistribute(placements=[Replicate()])
        x.softmax(0)
    assert told == [("aten._softmax.default", 0, ("S(0)", "R"))] and gathered.placements == (Replicate(),)


def test_in_a_backward_the_forward_s_lines_are_known_under_anomaly_mode():
    seen = []

    class Told(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            seen.append((distributed.is_in_backward(), distributed.forward_stack()))
            return gradient * 2

    x = torch.ones(2, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        Told.apply(x).sum().backward()
    assert not distributed.is_in_backward() and seen[0][0] and "Told.apply(x)" in seen[0][1]
    Told.apply(x).sum().backward()
    assert seen[1] == (True, None)


def test_the_flight_recorder_holds_this_process_s_collectives_and_groups_their_ranks():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        torch.distributed.all_reduce(torch.ones(3))
        until = time.monotonic() + 300
        last = {"retired": False}
        while not last["retired"] and time.monotonic() < until:  # gloo first tells who waits, then retires the entry
            last = pickle.loads(distributed.flight_record())["entries"][-1]
        assert (last["profiling_name"], last["input_sizes"], last["retired"]) == ("gloo:all_reduce", [[3]], True)
        assert any(frame["filename"] == __file__ for frame in last["frames"])
        assert distributed.group_members() == {last["process_group"][0]: [0]}
    finally:
        torch.distributed.destroy_process_group()


def test_what_dynamo_compiles_is_told_from_a_stack():
    told = []

    def backend(module, _):
        told.append(dynamo.compiling(sys._getframe()))
        return module.forward

    def compiled_here(x):
        return x + 1

    torch.compile(compiled_here, backend=backend)(torch.ones(2))
    (found,) = told
    assert re.fullmatch(r"\d+/0", found[0]) and found[1].endswith("compiled_here")
    assert dynamo.compiling(sys._getframe()) is None
