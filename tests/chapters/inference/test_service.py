"""Bad input to a service and to what draws it is told with its rule."""

import pytest
from toy_service import TOY, USUAL

from chapters.inference import service_view
from compile_lab.inference.service import (
    Request,
    phase_cost,
    serve,
    warm_up,
)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: serve(TOY, []), "requests is empty"),
        (lambda: serve(TOY, [Request(3, 4, 1)]), r"3 × 4 \+ 1: its batch is over the cache's 2 rows"),
        (lambda: serve(TOY, [Request(1, 8, 2)]), "needs 9 slots a sequence, and the cache has 8"),
        (lambda: warm_up(TOY, [Request(1, 9, 1)]), "needs 9 slots"),
        (lambda: phase_cost(TOY, "training", USUAL), "unknown phase 'training'; the phases are prefill, decode"),
        (lambda: TOY.compiled("fastest"), "unknown mode 'fastest'; the modes are eager"),
        (lambda: Request(0, 1, 1), "Request.batch is 0"),
        (lambda: Request(1, 0, 1), "Request.prompt is 0"),
        (lambda: service_view.latencies([]), "give at least one Stream"),
        (lambda: service_view.phases([], "decode"), "no decode was measured"),
    ],
)
def test_bad_input_is_told_with_its_rule(call, said):
    with pytest.raises(ValueError, match=said):
        call()
