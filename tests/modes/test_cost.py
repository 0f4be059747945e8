"""The modes' costs: what is measured, and how torch's own figures are read."""

import os
from types import SimpleNamespace

import pytest
import torch

from compile_lab.measure.trace import read
from compile_lab.modes import cost as modes
from compile_lab.modes import totals_view
from compile_lab.modes.cost import Comparison, break_even_calls, measure, measure_each, phases
from compile_lab.modes.cuda_graphs import Launches, launches

pytestmark = pytest.mark.processes


def scaled_softmax(x):
    return torch.softmax(x * 2, -1)


def test_a_compiled_function_is_measured():
    x = torch.rand(64, 64)
    eager, found = (measure(scaled_softmax, x, mode=mode, cold=False) for mode in ("eager", "default"))
    assert eager.call.low_ms <= eager.call.median_ms <= eager.call.high_ms
    assert eager.warm is None and eager.kernels is None
    assert found.cold is None and found.kernels == 1 and found.launches is None
    assert tuple(found.warm.phases_s) == modes.PHASES
    # Building a kernel takes a second; this one is loaded already, which takes some µs, and torch counts whole ones.
    assert found.warm.phases_s["Dynamo"] > found.warm.phases_s["kernels"] >= 0
    assert sum(found.warm.phases_s.values()) == pytest.approx(found.warm.seconds, rel=0.1, abs=0.01)
    assert found.speedup(eager) == eager.call.median_ms / found.call.median_ms


@pytest.mark.slow
def test_each_cold_time_compiles_anew_and_the_standing_cache_is_left_alone(tmp_path, monkeypatch):
    for name in ("standing", "one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "standing"))
    folders = tmp_path / "one", tmp_path / "two"
    found = measure(lambda x: torch.cos(x * 3).sum(), torch.rand(64), mode="default", folders=folders)
    one, two, standing = ({f.name for f in tmp_path.glob(f"{name}/**/*.so")} for name in ("one", "two", "standing"))
    assert one and one == two and not standing
    assert found.cold.seconds in found.cold.runs_s and len(found.cold.runs_s) == 2 and found.warm.seconds > 0
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "standing")


def test_a_case_out_of_memory_leaves_the_others_and_a_cpu_has_no_cuda_graphs():
    def greedy(x):
        if torch.compiler.is_compiling():
            return x + 1
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB. GPU 0 has …")

    eager, compiled = measure_each(greedy, torch.rand(4), modes=("eager", "reduce-overhead"), cold=False)
    assert eager.stopped == "out of memory: CUDA out of memory" and eager.call is None
    assert compiled.stopped == "" and compiled.call is not None
    assert compiled.speedup(eager) is None and compiled.break_even(eager, "warm") is None
    assert compiled.cuda_graphs.startswith("none: ") and compiled.peak_nbytes is None
    both = Comparison("greedy", "", {"eager": eager, "reduce-overhead": compiled}, "here")
    assert both.fastest == both.best_after(100, "warm") == "reduce-overhead"  # eager has no time to be compared with
    with pytest.raises(ValueError, match="start is 'cold' or 'warm'"):
        totals_view.totals(both, "tepid")


@pytest.mark.parametrize(
    ("compile_s", "eager_ms", "compiled_ms", "calls"),
    [(10, 1, 2, None), (0, 2, 1, 0), (0.0101, 2, 1, 11)],
)
def test_break_even(compile_s, eager_ms, compiled_ms, calls):
    assert break_even_calls(compile_s, eager_ms, compiled_ms) == calls
    if calls:
        spent, saved = (compile_s * 1e3 + calls * compiled_ms, calls * eager_ms)
        assert spent <= saved and compile_s * 1e3 + (calls - 1) * compiled_ms > (calls - 1) * eager_ms


def metrics(forward, duration, aot=None, inductor=None, kernels=None, runtime=False):
    return SimpleNamespace(
        is_forward=forward,
        is_runtime=runtime,
        duration_us=duration,
        aot_autograd_cumulative_compile_time_us=aot,
        inductor_cumulative_compile_time_us=inductor,
        triton_compile_time_us=kernels,
    )


def test_phases_of_a_cache_hit_and_of_a_backward():
    warm = phases([metrics(True, 625_902, 85_052, None, 3_228)])
    assert warm == pytest.approx({"Dynamo": 0.54085, "AOTAutograd": 0.081824, "Inductor": 0, "kernels": 0.003228})
    backward = phases([metrics(False, 5_000_000, None, 4_000_000, 3_000_000), metrics(None, 9, None, 9, 9, True)])
    assert backward == pytest.approx({"Dynamo": 0, "AOTAutograd": 1, "Inductor": 1, "kernels": 3})


def test_launches_are_read_from_a_trace():
    def event(cat, name, dur):
        return {"ph": "X", "cat": cat, "name": name, "ts": 0, "dur": dur}

    events = [event("kernel", "triton_poi_0", 100.0)] * 6 + [event("gpu_memcpy", "Memcpy DtoD", 5.0)]
    events += [event("cuda_runtime", "cudaLaunchKernel", 4.0)] * 2 + [event("cuda_driver", "cuLaunchKernelEx", 4.0)] * 2
    events += [event("cuda_runtime", "cudaGraphLaunch", 10.0)] * 2 + [event("cpu_op", "aten::mm", 9.0)]
    events += [{"ph": "s", "cat": "ac2g", "name": "cudaLaunchKernel"}]
    found = launches(read({"traceEvents": events}), calls=2)
    assert found == Launches(kernels=3, gpu_ms=0.3, launches=2, graphs=1, launch_ms=0.018)
