"""Worked problems: each chapter has two, written as the page needs them, and their code computes the number in bold."""

import ast
import math
from pathlib import Path

import nbformat
import pytest
import slides
from lab_site import bundle, problems

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("[0-9]*.ipynb"))
ONE = """## Worked problem: how long?

*400 MB go at 250 GB/s. How many milliseconds do they take?*

<details>
<summary>Solution</summary>

Bytes over bandwidth: **1.6 ms**.

```python
nbytes = 400e6
nbytes / 250e9 * 1e3  # ms
```

</details>
"""


def computed(code: str) -> float:
    """The value of the last line, with nothing but `math` at hand."""
    *before, last = ast.parse(code).body
    assert isinstance(last, ast.Expr), "the last line is no expression"
    assert not any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(ast.Module([*before, last], [])))
    names = {"math": math}
    exec(compile(ast.Module(before, []), "problem", "exec"), names)
    return eval(compile(ast.Expression(last.value), "problem", "eval"), names)


def test_the_number_of_a_problem_is_read_with_its_rounding():
    [problem] = problems.written(f"Before.\n\n{ONE}\n## After\n\n**More.**")
    assert problem.answer == problems.Answer(1.6, 0.05, "ms") and computed(problem.code) == pytest.approx(1.6)
    assert problems.read_answer("13,500 rows").rounding == 50 and problems.read_answer("400 GB").rounding == 0.5
    assert problems.read_answer("33 %") == problems.Answer(33, 0.5, "%")
    assert problems.read_answer("0.040 s").rounding == pytest.approx(0.0005)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("**1.6 ms**", "1.6 ms", "one number in bold"),
        ("Bytes", "**Bytes**", "one number in bold"),
        ("1.6 ms", "short", "no number above 0"),
        ("1.6 ms", "0 ms", "no number above 0"),
        ("<summary>Solution</summary>", "<summary>See</summary>", "no solution"),
        ("*400 MB", "400 MB", "italics"),
        ("```python", "```text", "one block of Python"),
    ],
)
def test_a_problem_that_is_written_otherwise_is_refused_by_its_name(old, new, said):
    with pytest.raises(ValueError, match=f"(?s){said}"):
        list(problems.written(ONE.replace(old, new)))


def test_the_book_for_assistants_has_a_problem_without_its_solution():
    text, gone = bundle.prose(ONE), ("1.6", "nbytes", "<")
    assert "400 MB" in text and text.endswith(bundle.SOLVED) and not any(part in text for part in gone)


def test_a_slide_has_a_problems_statement_and_no_slide_its_solution():
    made = slides.slides(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(f"{ONE}\n## After\n\nProse.")]))
    shown = {kind: [] for kind in ("slide", "-", "notes")}
    for cell in made.cells:
        shown[cell.metadata.slideshow.slide_type].append(cell.source)
    assert shown["slide"] == ["## Worked problem: how long?", "## After"] and shown["notes"] == ["Prose."]
    assert len(shown["-"]) == 1 and shown["-"][0].startswith("*400 MB")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_chapter_has_two_problems_whose_code_computes_the_number_in_bold(path):
    cells = nbformat.read(path, as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    found = list(problems.written(text))
    assert len(found) >= 2 and text.count("Worked problem") == len(found)
    for problem in found:
        value, answer = computed(problem.code), problem.answer
        assert abs(value - answer.value) <= answer.rounding * (1 + 1e-9), f"{problem.title}: {value}, not {answer}"
        assert problem.statement.endswith(("?*", ".*"))
