from compile_lab.page import Headline, Part, Split, Verdict
from compile_lab.page.claims import printed

PART = {"condition": "On a CPU, torch 2.13", "evidence": "It took 2 of 3."}


def test_a_verdict_says_yes_or_no_and_under_which_condition():
    yes, no = (Verdict("C07", "Printing breaks the graph", holds, **PART) for holds in (True, False))
    assert repr(yes) == "C07 confirmed: Printing breaks the graph\nOn a CPU, torch 2.13: It took 2 of 3."
    assert printed(repr(no)) == {"C07": ("refuted", "On a CPU, torch 2.13: It took 2 of 3.")}


def test_a_claim_that_is_both_is_split_into_parts_that_are_one_or_the_other():
    split = Split("C20", "Fusing is faster", Part("In fp32", True, **PART), Part("In `bf16`", False, **PART))
    why = "On a CPU, torch 2.13: It took 2 of 3."
    assert printed(repr(split)) == {"C20a": ("confirmed", why), "C20b": ("refuted", why)}


def test_a_headline_says_the_number_what_it_is_and_where_it_was_measured():
    headline = Headline("2×", "a step of `GPT-2` <small>", "H200, torch 2.11")
    assert repr(headline) == "2×: a step of `GPT-2` <small> · H200, torch 2.11"
    assert "<code>GPT-2</code> &lt;small&gt;" in headline._repr_html_()
