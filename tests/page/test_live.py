"""Panels by their address: what is handed to the reader's page, and how it is answered there."""

import json

import pytest

from compile_lab.page import live
from compile_lab.simulator import explored_view

CHOICE = {"schedule": "GPipe", "compared_with": "1F1B", "ranks": 4, "micro_batches": 8}
CHOICE |= {"backward": 2, "transfer": 0, "last_stage_longer_by": 0}


def test_an_address_leads_back_to_its_panel():
    question = {"panel": live.address_of(explored_view.pipeline), "choice": CHOICE}
    assert question["panel"] == "compile_lab.simulator.explored_view:pipeline"
    page = live.answer(json.dumps(question))
    assert page.startswith("<p><strong>GPipe</strong> takes as long as 33 forwards") and "<svg" in page


def test_a_refusal_is_answered_with_the_instruments_own_message():
    page = live.answer(json.dumps({"panel": live.address_of(explored_view.pipeline), "choice": CHOICE | {"ranks": 0}}))
    assert page == "<p><strong>Not possible.</strong> ranks is 0; it must be a whole number from 1</p>"


def local(a: str) -> str:
    return a


local.__module__ = "__main__"  # as in a notebook


@pytest.mark.parametrize("panel", [lambda a: a, local, json.JSONEncoder().encode])
def test_a_function_that_no_page_could_import_is_refused(panel):
    with pytest.raises(ValueError, match="define it at the top of a module, or leave out live"):
        live.address_of(panel)
