"""Lines of code are named without a folder of any machine."""

import json

import pytest
import torch

from compile_lab import source
from compile_lab.source import Line, place


def test_a_library_is_named_by_its_path_inside_the_library_and_any_other_file_bare(tmp_path):
    assert place(torch.nn.functional.__file__, 7) == "torch/nn/functional.py, line 7"
    assert place(json.__file__, 3) == "json/__init__.py, line 3"
    assert place(str(tmp_path / "model.py"), 12) == "model.py, line 12"


def test_a_library_that_is_reached_through_a_link_is_one(tmp_path, monkeypatch):
    (tmp_path / "really").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "really")
    monkeypatch.setattr(source.sysconfig, "get_path", lambda name: str(tmp_path / "link"))
    monkeypatch.setattr(source, "_LIBRARIES", source._folders("purelib"))
    for folder in ("link", "really"):
        assert place(str(tmp_path / folder / "torch/fx.py"), 3) == "torch/fx.py, line 3"


def test_python_and_torch_are_not_the_users_code():
    others = (torch.nn.functional.__file__, json.__file__, "<frozen importlib._bootstrap>")
    assert not any(Line(file, 1).is_users for file in others)
    assert Line(pytest.__file__, 1).is_users and Line(__file__, 1).is_users
