"""Skipped guards give wrong answers without an error; the stances do what their names say."""

import pytest

from chapters.inference.overhead_view import changes, stance_table
from chapters.inference.skipped import skipped_changes, stances

pytestmark = pytest.mark.processes


def test_skipped_guards_are_silently_wrong_and_checked_ones_never():
    found = {one.change: one for one in skipped_changes()}
    switch, weight = found["model.negative = True"], found["a weight replaced"]
    assert (switch.true, switch.checked, switch.stance, switch.filter) == (-4.0, -4.0, 4.0, 4.0)
    assert switch.wrong("stance") and switch.wrong("filter")
    assert found["a global becomes True"].wrong("stance")
    assert not any(one.wrong("checked") for one in found.values())
    assert not weight.wrong("stance") and not weight.wrong("filter"), "parameters are fetched at each call"
    assert found["float64 for float32"].wrong("filter") and found["int32 for float32"].wrong("filter")
    for change in ("8 rows for 4", "float64 for float32", "int32 for float32"):
        assert found[change].stance.startswith("RuntimeError: Recompilation triggered"), "inputs are still checked"
    assert found["8 rows for 4"].filter.startswith("AssertionError: expected size 8==4")
    drawing = changes(list(found.values()))
    assert "model.negative = True: true -4; checked -4; by stance 4, wrong; no guards 4, wrong." in drawing.alt


def test_each_stance_twice_the_same():
    told = {one.stance: one.calls for one in stances()}
    assert told == {
        "default": ("reused", "compiled", "reused", "reused", "reused"),
        "eager_then_compile": ("reused", "eager", "compiled", "reused", "reused"),
        "force_eager": ("eager",) * 5,
        "eager_on_recompile": ("reused", "eager", "eager", "eager", "reused"),
        "fail_on_recompile": ("reused", "RuntimeError", "RuntimeError", "RuntimeError", "reused"),
    }
    assert told == {one.stance: one.calls for one in stances()}
    assert "fail_on_recompile" in str(stance_table(stances()))
