"""Bad input to a service, to what measures it and to what draws it is told with its rule."""

import pytest
from toy_service import TOY, USUAL

from chapters.inference import grouped, grouped_view, overhead, overhead_view, roofline_view, service_view
from chapters.inference.threads import throughput
from compile_lab.inference.served import Served
from compile_lab.inference.service import Request, phase_cost, serve, warm_up
from compile_lab.recordings import here
from compile_lab.simulator.serving import decode_work

WORK = decode_work(12, 768, 50257, 1024)
NONE_SERVED = Served("toy", "a toy", USUAL, {}, (), {}, None, None, None, {})


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: serve(TOY, []), "requests is empty"),
        (lambda: serve(TOY, [Request(3, 4, 1)]), "2 rows"),
        (lambda: serve(TOY, [Request(1, 8, 2)]), "9 slots"),
        (lambda: warm_up(TOY, [Request(1, 9, 1)]), "9 slots"),
        (lambda: phase_cost(TOY, "training", USUAL), "prefill, decode"),
        (lambda: TOY.compiled("fastest"), "eager"),
        (lambda: Request(0, 1, 1), "Request.batch"),
        (lambda: Request(1, 0, 1), "Request.prompt"),
        (lambda: service_view.latencies([]), "Stream"),
        (lambda: service_view.phases([], "decode"), "no decode"),
        (lambda: service_view.paid_back(NONE_SERVED), "no two streams"),
        (lambda: roofline_view.roofline(WORK, [], 4e12, 8e14), "no decode step"),
        (lambda: overhead.call_costs(ways=("fast",)), "'fast'; there is 'eager'"),
        (lambda: overhead.call_costs(device="tpu"), "tpu"),
        (lambda: overhead.guard_costs((0,)), "is 0"),
        (lambda: overhead.guard_costs(samples=1), "samples is 1"),
        (lambda: overhead_view.cost_lines([], here("a test")), "nothing to draw"),
        (lambda: grouped.ExpertLayer(16, 16, 2, "fast"), "'fast'"),
        (lambda: grouped.ExpertLayer(63, 16, 2), "16 bytes"),
        (lambda: grouped.layer_runs(modes=("jit",)), "'jit'"),
        (lambda: grouped_view.by_tokens([], 9, here("a test")), "9 experts"),
        (lambda: overhead.per_guard([]), "three"),
        (lambda: throughput({}, [], threads=[0]), "1 or more"),
        (lambda: throughput({}, [()], threads=[2]), "1 inputs for 2 threads"),
        (lambda: throughput({}, [()], threads=[1], round_s=0), "above 0"),
    ],
)
def test_bad_input_is_told_with_its_rule(call, word):
    with pytest.raises(ValueError, match=word):
        call()
