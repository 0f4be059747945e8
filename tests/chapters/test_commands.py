"""Commands of outside tools that the book gives: as those tools take them."""

import json
import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TEXTS = [*NOTEBOOKS, ROOT / "README.md", *sorted((ROOT / "book").glob("*.md"))]
NEEDS_A_COMPILATION = (
    "TORCH_COMPILE_DEBUG",
    "TORCH_LOGS=fusion",
    "TORCH_LOGS=post_grad_graphs",
    "MEMORY_BUDGET_PARETO=",
)
"""What shows nothing when the code comes from Inductor's cache."""


def cells(path, kind):
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def prose(path):
    return "\n".join(cells(path, "markdown")) if path.suffix == ".ipynb" else path.read_text()


def test_tlparse_is_given_a_logs_own_path():
    given = [words for path in TEXTS for words in re.findall(r"`tlparse\s([^`]+)`", prose(path))]
    assert len(given) == 2
    for words in given:
        assert words.split()[0].endswith(".log") and "--latest" not in words


def test_what_a_cache_would_silence_is_shown_with_the_caches_off():
    texts = [text for path in NOTEBOOKS for text in cells(path, "markdown")]
    shown = [text for text in texts if any(command in text for command in NEEDS_A_COMPILATION)]
    assert shown and all("TORCHINDUCTOR_FORCE_DISABLE_CACHES=1" in text for text in shown)


def test_nothing_to_ship_is_said(monkeypatch, tmp_path):
    (cell,) = [text for text in cells(ROOT / "notebooks/19_return_on_investment.ipynb", "code") if "def ship" in text]
    made = {"torch": torch}
    exec(cell, made)
    monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: None)
    with pytest.raises(RuntimeError, match="nothing to ship: run the compiled step once before"):
        made["ship"](tmp_path / "artifacts")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: (b"all", None))
    made["ship"](tmp_path / "artifacts")
    assert (tmp_path / "artifacts").read_bytes() == b"all"
