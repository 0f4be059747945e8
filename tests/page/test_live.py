"""Panels by their address: what is handed to the reader's page, and how it is answered there."""

import json

import pytest

from compile_lab.page import live


def local(a: str) -> str:
    return a


local.__module__ = "__main__"  # as in a notebook


@pytest.mark.parametrize("panel", [lambda a: a, local, json.JSONEncoder().encode])
def test_a_function_that_no_page_could_import_is_refused(panel):
    with pytest.raises(ValueError, match="define it at the top of a module, or leave out live"):
        live.address_of(panel)
