"""What breaks graphs: a torch that moved a name is told here."""

import pytest
import torch

from compile_lab._torch import breaks, dynamo


def test_names_are_there_and_do_in_eager_what_their_breaks_are_about():
    assert dynamo.break_registry.is_file()
    for operator in (breaks.hints_wrapper, breaks.invoke_subgraph, breaks.out_dtype):
        assert "HigherOrderOperator" in [kind.__name__ for kind in type(operator).__mro__]
    assert callable(breaks.strict_mode) and callable(breaks.comptime.graph_break)
    for breaking in (breaks.graph_break, breaks.skip_frame, breaks.step_unsupported):
        assert breaking() is None
    with pytest.raises(RuntimeError, match="three"):
        breaks.check(False, lambda: "three")
    pair = torch.ones(1), torch.ones(1, dtype=torch.float64)
    assert breaks.elementwise_dtypes(*pair, type_promotion_kind=breaks.promotion)[1] is torch.float64
    assert breaks.nonstrict_trace(lambda x: x + 1)(torch.ones(1)) == 2
    x = torch.ones(1)
    with breaks.unsafe_preserve_version_counter(x):
        x.add_(1)
    assert x._version == 0
    with pytest.raises((AssertionError, IndexError, RuntimeError)):
        breaks.pop_mode()  # there is none


ADDED = torch.arange(1.0, 4.0).cumsum(0)
OPERATORS = {
    "associative_scan": (lambda run, x: run(lambda a, b: a + b, x, 0, combine_mode="generic"), ADDED),
    "scan": (lambda run, x: run(lambda carry, y: (carry + y, carry + y), x[0] * 0, x)[1], ADDED),
    "map": (lambda run, x: run(lambda y: y + 1, x), torch.arange(2.0, 5.0)),
    "while_loop": (lambda run, x: run(lambda y: y.sum() < 8, lambda y: (y + 1,), (x,))[0], torch.arange(2.0, 5.0)),
    "wrap": (lambda run, x: run(lambda y: y + 1, x), torch.arange(2.0, 5.0)),
    "wrap_with_set_grad_enabled": (lambda run, x: run(False, lambda y: y + 1, x), torch.arange(2.0, 5.0)),
    "wrap_with_autocast": (
        lambda run, x: run("cpu", torch.bfloat16, True, True, lambda y: y + 1, x),
        torch.arange(2.0, 5.0),
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_that_takes_a_function_goes_into_a_graph(name):
    call, expected = OPERATORS[name]
    dynamo.reset_dynamo()
    compiled = torch.compile(lambda x: call(getattr(breaks, name), x), backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.arange(1.0, 4.0)), expected)
