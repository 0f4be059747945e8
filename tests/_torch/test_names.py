"""Private names of torch whose failing no instrument's test would tell: a torch that moved one is told here."""

import datetime
import sys

import pytest
import torch
import torch.distributed as dist
from torch._dynamo import utils as dynamo_utils
from torch.nn.attention import flex_attention

from compile_lab._torch import dispatcher, distributed, dynamo, inductor, packages
from compile_lab._torch.flex import flex_as_on_a_gpu
from compile_lab._torch.packages import unpacked

pytestmark = pytest.mark.processes


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


def test_compiled_anew_knows_nothing_from_before_and_leaves_nothing():
    compilations = []

    def backend(graph, _):
        compilations.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: x + 1, backend=backend)
    compiled(torch.ones(2))
    with dynamo.compiled_anew():
        compiled(torch.ones(2))
        compiled(torch.ones(2))
    compiled(torch.ones(2))
    assert len(compilations) == 3


def test_the_product_of_fp8_matrices_is_that_of_their_values():
    if torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("fp8 products need compute capability 8.9")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(32, 32, device=device).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device=device)
    found = dispatcher.scaled_mm(a, b.t(), scale_a=one, scale_b=2 * one, out_dtype=torch.bfloat16)
    torch.testing.assert_close(found.float(), 2 * a.float() @ b.float().t(), rtol=1e-2, atol=1e-1)


def test_a_composite_operator_is_told_from_one_with_a_kernel():
    aten = torch.ops.aten
    assert dispatcher.is_composite(aten.reshape.default) and dispatcher.is_composite(aten.contiguous.default)
    assert not dispatcher.is_composite(aten.view.default) and not dispatcher.is_composite(aten.mm.default)


def test_flex_as_on_a_gpu_takes_gradients_of_cpu_tensors_and_asks_for_what_a_backward_needs():
    before = flex_attention._validate_device, flex_attention._apply_kernel_options
    leaf = torch.ones(1, 1, 128, 16, requires_grad=True)
    attend = torch.compile(flex_attention.flex_attention, backend="aot_eager", dynamic=False)
    with pytest.raises(Exception, match="CPU"):
        attend(leaf, leaf, leaf)
    torch._dynamo.reset()
    with flex_as_on_a_gpu():
        attend(leaf, leaf, leaf).sum().backward()
    assert leaf.grad.isfinite().all()
    assert (flex_attention._validate_device, flex_attention._apply_kernel_options) == before


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(dist.ProcessGroupGloo, "__init__", dist.ProcessGroupGloo.__init__)  # restored at the end
    distributed.one_gloo_thread()
    distributed.one_gloo_thread()  # a second time changes nothing
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_every_gloo_group_has_one_thread_that_completes_its_collectives_and_what_it_was_made_with(world):
    """Two write one string without a lock: where torch gives a group one by itself, `one_gloo_thread` is not needed."""
    patient = dist.new_group([0], timeout=datetime.timedelta(seconds=7))
    groups = [dist.group.WORLD, dist.new_group(), dist.new_group(backend="gloo"), patient]
    *_, kept = options = [group._get_backend(torch.device("cpu")).options for group in groups]
    assert [each._threads for each in options] == [1, 1, 1, 1]
    assert (kept._timeout.total_seconds(), kept.global_ranks_in_group) == (7, [0])
    assert dist.ProcessGroupGloo._Options()._threads == 2


def test_a_group_that_is_made_as_later_releases_make_it_has_one_thread_too(world):
    """torch 2.14 names an argument that 2.13 does not have; asked for something new, a group is torch's own."""
    made = dist.ProcessGroupGloo(
        dist.HashStore(), 0, 1, timeout=datetime.timedelta(seconds=7), enable_reconfigure=False
    )
    assert (made.options._threads, made.options._timeout.total_seconds()) == (1, 7)
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        dist.ProcessGroupGloo(dist.HashStore(), 0, 1, something_newer=True)


def test_a_package_that_ends_a_process_is_refused_before_it_ends_this_one(monkeypatch, tmp_path):
    monkeypatch.setattr(packages, "LOAD", "import os; os.abort()")
    monkeypatch.setattr(packages, "_ENDED", [])
    with pytest.raises(RuntimeError, match=r"loaded model.pt2 was ended by SIGABRT: .* run it from C\+\+"):
        unpacked(tmp_path / "model.pt2", tried=True)
