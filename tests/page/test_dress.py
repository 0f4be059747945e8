"""The rules for notebooks are shown where a reader's kernel runs, and nowhere else."""

import sys
from types import SimpleNamespace

import pytest

from compile_lab.page.dress import SHEET, dress


@pytest.fixture
def shown(monkeypatch):
    """In a kernel: the `pieces` that are displayed, and the `hooks` that IPython was given."""
    shell = SimpleNamespace(events=SimpleNamespace(register=lambda name, call: hooks.append((name, call))))
    hooks, pieces = [], []
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr("IPython.display.display", lambda piece: pieces.append(piece.data))
    for name in ("COMPILE_LAB_PUBLISH", "COLAB_RELEASE_TAG"):
        monkeypatch.delenv(name, raising=False)
    return SimpleNamespace(pieces=pieces, hooks=hooks)


def test_in_each_cell_of_colab(shown, monkeypatch):
    dress()
    assert shown.pieces == [f"<style>{SHEET}</style>"] and not shown.hooks, "elsewhere one page holds all outputs"
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    dress()
    [(event, before_a_cell)] = shown.hooks
    before_a_cell("its information")
    assert event == "pre_run_cell" and shown.pieces == [f"<style>{SHEET}</style>"] * 3


def test_not_in_a_stored_page_nor_outside_a_kernel(shown, monkeypatch):
    monkeypatch.setenv("COMPILE_LAB_PUBLISH", "1")
    dress()
    monkeypatch.delenv("COMPILE_LAB_PUBLISH")
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    dress()
    monkeypatch.delitem(sys.modules, "IPython")
    dress()
    assert not shown.pieces
