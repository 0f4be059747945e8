"""Each silent error of torch 2.13 is still one: a torch that mends it fails here, by name. What is told of it holds."""

import inspect
import re
import sys
from pathlib import Path

import pytest
import torch.distributed.tensor

from chapters.sharding_strategies.silent import Finding, SilentError
from chapters.sharding_strategies.silent_errors import ERRORS, findings
from chapters.sharding_strategies.silent_errors_view import SilentErrors

ranks_are_forked = pytest.mark.skipif(sys.platform == "win32", reason="ranks are forked")
SAID = {
    "mse_loss_gradient": "off by 1 of",
    "binary_cross_entropy_gradient": "off by 1 of",
    "conv2d_over_height": "shape (2, 4, 4, 8) for (2, 4, 8, 8)",
    "conv2d_of_fewer_images_than_ranks": "shape (0, 4, 6, 6) for (1, 4, 6, 6)",
    "logsumexp_keepdim": "shape (1, 2) for (1, 4)",
    "amax_gradient": "NaN in 11 of 12",
    "fill_of_partial_sums": "off by 1 of",
    "vector_times_matrix": "shape (1, 3) for (3,)",
    "histogram_after_another": "shape (100,) for (3,)",
    "one_hot_without_a_number_of_classes": "shape (4, 2) for (4, 4)",
}


@pytest.fixture(scope="module")
def found():
    return findings(2)


@ranks_are_forked
@pytest.mark.slow
@pytest.mark.parametrize("name", ERRORS)
def test_it_is_wrong_and_says_nothing(found, name):
    told = found[name].difference
    assert told and not told.startswith("refused"), f"{name} is no silent error here: {told!r}"
    assert told.startswith(SAID.get(name, "")), told
    assert found[name].ranks != found[name].alone


@pytest.mark.parametrize("name", ERRORS)
def test_its_place_is_in_torch_and_its_cause_is_told(name):
    file, place = ERRORS[name].place.split(": ")
    text = (Path(torch.distributed.tensor.__file__).parent / file).read_text()
    assert re.search(rf"^\s*(def|class) {place}\b", text, re.M), f"torch has no {place} in {file}"
    assert len(ERRORS[name].cause.splitlines()[0]) > 40 and ERRORS[name].call
    mentioned = re.findall(r"(?<!`)`(\w+)`(?!`)", ERRORS[name].cause)
    assert set(mentioned) <= set(ERRORS), f"{name} refers to what is no silent error"
    assert "return" in ERRORS[name].source and '"""' not in ERRORS[name].source


def right(mesh):
    """A program that is right."""
    return torch.ones(2), torch.ones(2)


def refused(mesh):
    raise ValueError("no")


@ranks_are_forked
def test_what_is_mended_or_refused_is_told_so():
    from chapters.sharding_strategies.silent import run_all

    told = run_all({f.__name__: SilentError(f, "f()", "a: b") for f in (right, refused)})
    assert told["right"] == Finding("", "1, 1", "1, 1") and told["refused"].difference == "refused: ValueError: no"


def test_a_card_has_both_answers_cause_program_and_reports():
    given = {
        "item_of_a_sum": Finding("off by 0.1", "1", "2"),
        "mse_loss_gradient": Finding(""),
        "fill_of_partial_sums": Finding("refused: ValueError: <no>"),
    }
    shown = SilentErrors(given)
    assert shown.wrong == ("item_of_a_sum",)
    text, page = repr(shown), shown._repr_html_()
    assert text.startswith("1 of 3 programs give another result") and "one process has 2; the ranks have 1" in text
    assert "right in this torch" in page and "&lt;no&gt;" in page and "not found reported" in page
    assert 'href="https://github.com/pytorch/pytorch/issues/166638"' in page and "_local_scalar_dense" in page
    assert page.count("<details") == page.count('class="lab-silent"') == 3
    assert inspect.getdoc(ERRORS["item_of_a_sum"].program).splitlines()[0][:20] in page
    with pytest.raises(ValueError, match="no silent error is called 'nope'"):
        SilentErrors({"nope": Finding("")})
    with pytest.raises(ValueError, match="no finding"):
        SilentErrors({})
