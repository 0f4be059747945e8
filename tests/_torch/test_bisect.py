"""torch's own bisector of its compiler: what it names where a result is wrong, and nothing where all is right."""

import pytest
import torch

from compile_lab._torch.bisect import stock_bisection

pytestmark = pytest.mark.processes


def test_stock_bisection_names_the_first_backend_and_prints_nothing(capsys):
    def is_right():
        torch.compiler.reset()
        made = torch.compile(lambda x: torch.softmax(x, -1).sum(-1).floor())(torch.full((1, 3), 0.0))
        return bool(made == 7)  # never: so that the first backend is at fault

    assert stock_bisection(is_right) == ("eager", "", None, "")
    assert stock_bisection(lambda: True) is None
    assert capsys.readouterr().out == ""
