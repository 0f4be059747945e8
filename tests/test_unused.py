"""Dead code is found by name; a notebook and a tool use what they speak of, an ``__init__.py`` does not."""

import nbformat
import unused


def test_what_only_a_face_hands_on_is_unused_and_what_a_cell_calls_is_not(tmp_path):
    for place in (*unused.PLACES, "notebooks"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.vulture]\nignore_names = ["kept"]\nignore_decorators = ["@listed"]\n'
    )
    names = ("called", "handed_on", "kept")
    (tmp_path / "compile_lab" / "some.py").write_text("".join(f"def {name}(): pass\n" for name in names))
    (tmp_path / "compile_lab" / "__init__.py").write_text('from .some import handed_on\n__all__ = ["handed_on"]\n')
    (tmp_path / "chapters" / "answers.py").write_text("@listed\ndef registered(): pass\n")
    cells = [nbformat.v4.new_code_cell("%matplotlib inline\nfrom compile_lab.some import called\ncalled()")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "notebooks" / "00.ipynb")
    (found,) = unused.unused(tmp_path)
    assert found.endswith("some.py:2: unused function 'handed_on' (60% confidence)")
