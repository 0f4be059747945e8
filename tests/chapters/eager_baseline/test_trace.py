"""What operators launch, counted in a trace with a known answer."""

from example_trace import SEEN

from chapters.eager_baseline.experiments.dispatch import launches_in


def test_what_operators_launch_is_counted_by_call():
    assert launches_in(SEEN, calls=1) == [
        {"op": "aten::addmm", "calls": 1, "kernels": 2, "kernels_us": 17},
        {"op": "aten::zero_", "calls": 1, "kernels": 1, "kernels_us": 2},
    ]
