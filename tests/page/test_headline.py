"""The number that a chapter is read for."""

import pytest

from compile_lab.page import Headline


def test_a_headline_says_the_number_what_it_is_and_where_it_was_measured():
    headline = Headline("2×", "a step of `GPT-2` <small>", "H200, torch 2.11")
    assert repr(headline) == "2×: a step of `GPT-2` <small> · H200, torch 2.11"
    html = headline._repr_html_()
    assert '<strong class="lab-number">2×</strong>' in html and "<code>GPT-2</code> &lt;small&gt;" in html


@pytest.mark.parametrize("number, what", [("", "a step"), ("2×", " ")])
def test_a_headline_without_a_number_or_words_is_refused(number, what):
    with pytest.raises(ValueError, match="a headline needs a number and what it is"):
        Headline(number, what, "here")
