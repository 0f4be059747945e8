"""The modes' costs: what is measured, what is refused, how torch's own figures and reasons are read."""

import json
import os
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from compile_lab.capture import NotCompiledError
from compile_lab.measure.host import HostCost
from compile_lab.measure.trace import read
from compile_lab.modes import cost as modes
from compile_lab.modes import totals_view
from compile_lab.modes import view as modes_view
from compile_lab.modes.cost import (
    Comparison,
    CompileTime,
    ModeCost,
    Search,
    Spread,
    break_even_calls,
    measure,
    measure_each,
    mode_options,
    phases,
)
from compile_lab.modes.cuda_graphs import Launches, launches, readable_reason, skip_reasons, status

pytestmark = pytest.mark.processes


def scaled_softmax(x):
    return torch.softmax(x * 2, -1)


def cost(mode, median_ms, cold_s=None, warm_s=None):
    compiled = [s if s is None else CompileTime(s, {"Dynamo": s}) for s in (cold_s, warm_s)]
    return ModeCost(mode, Spread(median_ms, median_ms * 0.9, median_ms * 1.1), *compiled)


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
def test_cold_is_slower_than_warm_and_leaves_the_standing_cache_alone():
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    found = measure(lambda x: torch.cos(x * 3).sum(), torch.rand(64), mode="default")
    assert found.cold.seconds > 3 * found.warm.seconds
    assert found.cold.phases_s["kernels"] > 10 * found.warm.phases_s["kernels"]
    assert os.environ.get("TORCHINDUCTOR_CACHE_DIR") == folder


def test_a_step_of_which_a_part_is_compiled():
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.weight.clone()

    def step(compiled):
        compiled(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    found = measure(model, mode="default", step=step, cold=False)
    assert found.warm.phases_s["AOTAutograd"] > 0 and not torch.equal(before, model.weight)


def under_a_dispatch_mode():
    with FlopCounterMode(display=False):
        measure(scaled_softmax, torch.rand(64, 64), mode="default", cold=False)


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        (lambda: measure(scaled_softmax, torch.rand(4), mode="fast"), ValueError, "unknown mode 'fast'; the modes are"),
        (lambda: measure(torch.rand(4), mode="eager"), TypeError, "Tensor is not callable"),
        (lambda: mode_options("eager"), ValueError, "unknown mode 'eager'"),
        (lambda: break_even_calls(1, 0, 1), ValueError, "eager_ms is 0"),
        (lambda: break_even_calls(float("nan"), 1, 1), ValueError, "compile_s is nan"),
        (lambda: measure(len, torch.rand(4), mode="default", cold=False), NotCompiledError, "ompiled"),
        (under_a_dispatch_mode, NotCompiledError, "No compiled graph ran"),
        (lambda: totals_view.totals(comparison(), shown="upside down"), ValueError, "'compared with eager'"),
        (lambda: totals_view.totals(comparison(), start="tepid"), ValueError, "'cold' or 'warm'"),
    ],
)
def test_bad_input_is_named(call, error, word):
    with pytest.raises(error, match=word):
        call()


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


@pytest.mark.parametrize(
    ("compile_s", "eager_ms", "compiled_ms", "calls"),
    [(10, 2, 1, 10_000), (10, 1, 2, None), (10, 1, 1, None), (0, 2, 1, 0), (0.0101, 2, 1, 11)],
)
def test_break_even(compile_s, eager_ms, compiled_ms, calls):
    assert break_even_calls(compile_s, eager_ms, compiled_ms) == calls
    if calls:
        spent, saved = (compile_s * 1e3 + calls * compiled_ms, calls * eager_ms)
        assert spent <= saved and compile_s * 1e3 + (calls - 1) * compiled_ms > (calls - 1) * eager_ms


def test_break_even_of_a_mode_starts_cold_or_warm():
    eager, compiled = cost("eager", 3.0), cost("default", 1.0, cold_s=20, warm_s=2)
    assert (compiled.break_even(eager), compiled.break_even(eager, "warm")) == (10_000, 1_000)


def comparison(**costs):
    return Comparison("toy", "a toy", {"eager": cost("eager", 10.0), **costs}, "nowhere")


def test_the_best_mode_depends_on_the_number_of_calls():
    slow = ModeCost("max-autotune-no-cudagraphs", stopped="stopped after 60 s, its time limit")
    found = comparison(
        **{
            "default": cost("default", 5.0, cold_s=10, warm_s=1),
            "max-autotune": cost("max-autotune", 4.0, cold_s=100, warm_s=2),
            "max-autotune-no-cudagraphs": slow,
        }
    )
    assert [found.best_after(calls) for calls in (10, 10_000, 1_000_000)] == ["eager", "default", "max-autotune"]
    assert found.best_after(1_500, "warm") == "max-autotune"
    assert (
        found.fastest == "max-autotune" and found.speedup("default") == 2 and found.speedup("reduce-overhead") is None
    )
    assert list(found.done) == ["eager", "default", "max-autotune"]


def test_of_modes_that_hardly_differ_the_plainest_is_best():
    near = {"default": cost("default", 5.0, cold_s=10), "reduce-overhead": cost("reduce-overhead", 4.95, cold_s=10)}
    assert comparison(**near).best_after(10**7) == "default"


def metrics(forward, duration, aot=None, inductor=None, kernels=None, runtime=False):
    return SimpleNamespace(
        is_forward=forward,
        is_runtime=runtime,
        duration_us=duration,
        aot_autograd_cumulative_compile_time_us=aot,
        inductor_cumulative_compile_time_us=inductor,
        triton_compile_time_us=kernels,
    )


def test_phases_are_each_stage_without_the_one_inside_it():
    # As torch 2.13 reported MiniGPT's inference, compiled cold.
    found = phases([metrics(True, 12_279_720, 11_701_917, 10_981_639, 7_667_662)])
    expected = {"Dynamo": 0.577803, "AOTAutograd": 0.720278, "Inductor": 3.313977, "kernels": 7.667662}
    assert found == pytest.approx(expected)


def test_phases_of_a_cache_hit_and_of_a_backward():
    warm = phases([metrics(True, 625_902, 85_052, None, 3_228)])
    assert warm == pytest.approx({"Dynamo": 0.54085, "AOTAutograd": 0.081824, "Inductor": 0, "kernels": 0.003228})
    backward = phases([metrics(False, 5_000_000, None, 4_000_000, 3_000_000), metrics(None, 9, None, 9, 9, True)])
    assert backward == pytest.approx({"Dynamo": 0, "AOTAutograd": 1, "Inductor": 1, "kernels": 3})


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("mutated inputs (1 instances)", "mutated inputs (1 instances)"),
        ('skipping cudagraphs due to cpu device (arg2_1). Found from : \n   File "/a"', "cpu device (arg2_1)"),
        ("['complex memory overlap', 'non-Tensor inputs']", "complex memory overlap; non-Tensor inputs"),
        ("multiple devices: device(type='cpu')", "multiple devices: device(type='cpu')"),
        ("", "torch gives no reason"),
    ],
)
def test_reasons_are_read_without_preamble_and_places(message, reason):
    before = "skipping cudagraphs due to "
    assert readable_reason(message and before + message) == reason


def test_reasons_are_kept_once_and_from_stderr(capfd):
    from compile_lab._torch.inductor import inductor_modes

    log = inductor_modes().cudagraphs_log
    with skip_reasons() as reasons:
        for _ in range(2):
            log.warning("skipping cudagraphs due to mutated inputs (1 instances)")
    assert reasons == ["mutated inputs (1 instances)"] and not log.filters
    assert "mutated" not in capfd.readouterr().err


def test_launches_are_read_from_a_trace():
    def event(cat, name, dur):
        return {"ph": "X", "cat": cat, "name": name, "ts": 0, "dur": dur}

    events = [event("kernel", "triton_poi_0", 100.0)] * 6 + [event("gpu_memcpy", "Memcpy DtoD", 5.0)]
    events += [event("cuda_runtime", "cudaLaunchKernel", 4.0)] * 2 + [event("cuda_driver", "cuLaunchKernelEx", 4.0)] * 2
    events += [event("cuda_runtime", "cudaGraphLaunch", 10.0)] * 2 + [event("cpu_op", "aten::mm", 9.0)]
    events += [{"ph": "s", "cat": "ac2g", "name": "cudaLaunchKernel"}]
    found = launches(read({"traceEvents": events}), calls=2)
    assert found == Launches(kernels=3, gpu_ms=0.3, launches=2, graphs=1, launch_ms=0.018)


def test_the_status_says_what_ran_and_why_not():
    none, some = Launches(10, 1, 10, 0, 0.1), Launches(10, 1, 0, 2, 0.1)
    assert status(False, "cuda", none, ()) == "not requested"
    assert status(True, "cuda", some, ()) == "used"
    assert status(True, "cuda", none, ("mutated inputs",)) == "skipped: mutated inputs"
    assert status(True, "cuda", none, ()) == "skipped: torch gives no reason"
    assert status(True, "cuda", some, ("cpu device (a)",)) == "used in part, the rest skipped: cpu device (a)"
    assert status(True, "cuda", None, ()).startswith("unknown")


def test_a_cost_comes_back_from_json():
    whole = ModeCost(
        "default",
        Spread(1, 0.9, 1.1),
        CompileTime(2, {"Dynamo": 2}, (1, 2, 3)),
        None,
        3,
        Launches(1, 2, 3, 4, 5),
        6,
        7,
        searches=(Search("mm", 3, 0.2, None),),
        host=HostCost(1, 2, 3, 4, (("call", 0.5),)),
    )
    assert ModeCost.from_json(json.loads(json.dumps(asdict(whole)))) == whole


def test_a_break_even_has_ends_where_it_was_compiled_several_times():
    eager, once = cost("eager", 3.0), cost("default", 1.0, cold_s=20)
    several = replace(once, cold=CompileTime(20, {"Dynamo": 20}, (19, 20, 30)))
    assert once.break_even_ends(eager) is None and several.break_even_ends(eager, "warm") is None
    assert several.break_even_ends(eager) == (break_even_calls(19, 3.3, 0.9), break_even_calls(30, 2.7, 1.1))
    assert modes_view.pays_after(several, eager) == "10,000 (7,917 to 18,750)"
    assert modes_view.pays_after(once, eager) == "10,000"
    assert modes_view.pays_after(cost("default", 2.9, cold_s=20), eager) == "not told apart"


def test_of_several_cold_times_the_middle_one_is_told_and_all_are_kept():
    found = modes._middle([CompileTime(seconds, {"Dynamo": seconds}) for seconds in (5.0, 2.0, 3.0)])
    assert found == CompileTime(3.0, {"Dynamo": 3.0}, (5.0, 2.0, 3.0)) and (found.low_s, found.high_s) == (2.0, 5.0)


def test_a_search_tells_the_library_from_triton():
    found = Search.of("mm", {"mm": 0.3, "triton_mm_1": 0.2, "triton_mm_2": float("inf"), "bias_addmm": 0.25})
    assert found == Search("mm", 3, 0.25, 0.2) and Search.of("mm", {"mm": 0.3}).triton_ms is None
