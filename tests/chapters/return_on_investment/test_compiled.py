"""Many calls in one compile: each has its own result, its own kernels, and fails alone."""

import pytest
import torch

from chapters.return_on_investment.compiled import JudgedCall, compiled_together


@pytest.mark.slow
def test_each_call_has_its_result_its_kernels_and_its_failure():
    x = torch.arange(6.0).view(2, 3)

    def broken(x):
        raise RuntimeError("not this one")

    calls = [
        JudgedCall("exp", torch.exp, (x,)),
        JudgedCall("broken", broken, (x,)),
        JudgedCall("mm", torch.mm, (x, x.T.clone())),
        JudgedCall("sum", torch.sum, (x + 1,), {"dim": 1}),
    ]
    exp, stopped, mm, summed = compiled_together(calls)
    assert torch.allclose(exp.result, x.exp()) and (exp.written, exp.called) == (True, False)
    assert "Observed exception" in stopped.stopped and stopped.result is None
    assert torch.allclose(mm.result, x @ x.T) and (mm.written, mm.called) == (False, True)
    assert torch.equal(summed.result, (x + 1).sum(1)) and summed.written
    assert compiled_together([]) == []
