import pytest

from compile_lab.page import Part, Split, Verdict
from compile_lab.page.claims import printed

PART = {"condition": "On a CPU, torch 2.13", "evidence": "It took 2 of 3."}


def test_a_verdict_says_yes_or_no_and_under_which_condition():
    yes, no = (Verdict("C07", "Printing breaks the graph", holds, **PART) for holds in (True, False))
    assert repr(yes) == "C07 confirmed: Printing breaks the graph\nOn a CPU, torch 2.13: It took 2 of 3."
    assert printed(repr(no)) == {"C07": ("refuted", "On a CPU, torch 2.13: It took 2 of 3.")}
    assert "lab-verdict lab-refuted" in no._repr_html_() and "On a CPU" in no._repr_html_()


def test_a_claim_that_is_both_is_split_into_parts_that_are_one_or_the_other():
    split = Split("C20", "Fusing is faster", Part("In fp32", True, **PART), Part("In `bf16`", False, **PART))
    why = "On a CPU, torch 2.13: It took 2 of 3."
    assert printed(repr(split)) == {"C20a": ("confirmed", why), "C20b": ("refuted", why)}
    assert repr(split).startswith("C20, in 2 parts: Fusing is faster\n")
    page = split._repr_html_()
    assert page.count("lab-verdict") == 1 and "lab-part lab-confirmed" in page and "<code>bf16</code>" in page


def test_what_was_not_tested_has_no_verdict():
    with pytest.raises(ValueError, match="C20 has 1 parts"):
        Split("C20", "Fusing is faster", Part("In fp32", True, **PART))
    with pytest.raises(ValueError, match="evidence is not one line"):
        Verdict("C07", "Printing breaks the graph", True, "Here", " ")
    with pytest.raises(ValueError, match="claim is not one line"):
        Part("Printing\nbreaks", True, **PART)
    with pytest.raises(TypeError, match="holds"):
        Verdict("C07", "Printing breaks the graph", "refined", **PART)
