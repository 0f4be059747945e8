"""Gains as pictures: a dot is a gain that can be told from noise, and the busy time is what was seen."""

from dataclasses import asdict

from chapters.compile_modes import gains_view
from compile_lab.modes.cost import Comparison, ModeCost, Spread
from compile_lab.modes.cuda_graphs import Launches


def cost(mode, median_ms, spread=0.01, gpu_ms=1.0):
    call = Spread(median_ms, median_ms * (1 - spread), median_ms * (1 + spread))
    return ModeCost(mode, call, launches=Launches(10, gpu_ms, 10, 0, 0.5))


def case(what, **costs):
    return {"case": "fn", "what": what, "costs": {name: asdict(each) for name, each in costs.items()}}


def test_a_gain_is_a_dot_only_where_quartiles_are_apart():
    cases = [
        case("small", eager=cost("eager", 2.0), default=cost("default", 1.0)),
        case("large", eager=cost("eager", 2.0), default=cost("default", 1.99)),
        case("odd", eager=cost("eager", 2.0), default=ModeCost("default", stopped="refused")),
    ]
    figure = gains_view.gained(cases, "here")
    assert [row[3] for row in figure.table.rows] == ["1.00×", "2.00×", "1.00×", "not told apart", "1.00×", None]
    assert "small: 2.0×; large: × (not told apart); odd: × (not measured)" in figure.alt
    assert "2.00× on small, not told apart on large, not measured on odd" in figure.title


def test_a_call_is_divided_into_what_the_gpu_works_and_waits():
    costs = {"eager": cost("eager", 4.0), "default": cost("default", 2.0), "reduce-overhead": cost("r", 0.9)}
    found = Comparison("made up", "a workload", costs, "typed in")
    figure = gains_view.busy(found)
    assert "eager: GPU busy 25, GPU idle 75" in figure.alt and "25% in eager, 50% in default" in figure.title
    assert "100% in reduce-overhead" in figure.title, "the profiler saw more than the call took: all of it is busy"
    assert figure.table.rows[1][-2:] == [1.0, 2.0]
