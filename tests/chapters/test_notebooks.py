"""What every chapter keeps to: small and clean outputs, short cells, parts in their order, and outputs compared."""

import ast
import json
import re
import statistics
import string
from pathlib import Path

import nbformat
import pytest
from lab_site import references
from pybtex.database import parse_file
from sources import sources

from compile_lab.page.claims import printed

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
ROLE = re.compile(r"\{[a-z:]+\}`|^[`:]{3,}\{", re.MULTILINE)
LINK = re.compile(r"\[([^][]*)\]\((https://[^()]*/book/(glossary|bibliography)\.html#([^()]*))\)")
MACHINE = re.compile(r"(?<![\w.])/(home|root|Users|tmp|work|opt|usr|mnt|content)/\w|[A-Z]:\\\\Users")
LONGEST_CELL = 25
LARGEST_OUTPUT = 200_000
SLOWEST = 2.6
"""Times the middle chapter's seconds: seconds alone would be those of the machine that stored them."""

pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def code(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def tags(cell):
    return cell.metadata.get("tags", [])


def prose(path):
    return "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")


def test_it_was_executed_from_top_to_bottom_on_a_known_environment(path):
    assert [cell.execution_count for cell in code(path)] == list(range(1, len(code(path)) + 1))
    stored = read(path).metadata["compile_lab"]
    known = {"executed", "seconds", "python", "torch", "triton", "numpy", "device"}
    assert set(stored) == known | {"sources"}
    middle = statistics.median(read(each).metadata["compile_lab"]["seconds"] for each in NOTEBOOKS)
    assert stored["seconds"] < SLOWEST * middle


def test_its_outputs_are_those_of_its_code_which_ran_twice_when_they_were_stored(path):
    """Or else: `make execute ONLY=…`, which runs its cells a second time in the same kernel, too."""
    assert read(path).metadata["compile_lab"]["sources"] == sources(read(path))


def test_preflight_follows_the_setup_cell(path):
    assert "preflight()" in code(path)[1].source and "nbval-ignore-output" in tags(code(path)[1])


def test_a_chapter_opens_with_a_drawing_of_its_own_numbers(path):
    opening = code(path)[2]
    assert [cell for cell in code(path) if "opening" in tags(cell)] == [opening], "cell 3, and no other"
    shown = opening.outputs[0].data["text/html"]
    assert ("lab-drawing" in shown or "m-body" in shown) and "aria-label=" in shown


def test_a_chapter_says_what_it_means_for_the_slow_step(path):
    """The book's thread: two numbers at the least, by a cell that reads a recording."""
    if path.stem == "24_capstone":
        return  # it is about nothing else
    cells = read(path).cells
    begins = next(at for at, cell in enumerate(cells) if "the slow step" in cell.source.lower())
    cell = next(cell for cell in cells[begins:] if cell.cell_type == "code")
    (output,) = cell.outputs
    said = output.data.get("text/markdown", output.data["text/plain"])
    assert "recordings.load(" in cell.source and re.search(r"\b(ms|GB|MB|s|steps|tokens)\b", "".join(said))
    assert len(re.findall(r"\d+", "".join(said))) >= 2


def test_outputs_are_small_and_clean(path):
    for cell in code(path):
        place = f"cell {cell.execution_count}"
        for output in cell.outputs:
            text = json.dumps(output, ensure_ascii=False)
            assert output.output_type != "error", f"{place} stored an error"
            assert output.get("name") != "stderr", f"{place} wrote to stderr: {output.get('text', '')[:80]!r}"
            assert len(text) <= LARGEST_OUTPUT, f"{place}: an output of {len(text):,} characters"
            assert not (found := MACHINE.search(text)), f"{place}: a path of some machine, {text[found.start() :][:60]}"
            assert "application/vnd.jupyter.widget-view+json" not in output.get("data", {}), f"{place}: a widget"
            assert "Plotly.newPlot" not in text and "Warning" not in text, f"{place}: plotly.js or a warning inside"


def test_what_is_measured_live_names_its_device(path):
    """On a machine with a GPU, `here` without a device is the GPU, also of what ran on the CPU."""
    asked = [node for cell in code(path) if "here(" in cell.source for node in ast.walk(ast.parse(cell.source))]
    calls = [node for node in asked if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "here"]
    without = [ast.unparse(call) for call in calls if len(call.args) + len(call.keywords) < 2]
    assert not without, f"{without}: give the device as well"


def test_nothing_that_is_compared_names_the_day_it_was_stored(path):
    """A recording's day stays; that of a live or a computed result is another tomorrow (CI found it at midnight)."""
    today = re.compile(r"(?:measured live on|computed, not measured, for)(?:(?!recorded on)[^\n\\])*?\b\d{4}-\d\d-\d\d")
    compared = [cell for cell in code(path) if "nbval-ignore-output" not in tags(cell)]
    texts = {cell.execution_count: json.dumps(cell.outputs, ensure_ascii=False) for cell in compared}
    assert not {n: found[0] for n, text in texts.items() if (found := today.search(text))}


def test_cells_are_short(path):
    long = {cell.execution_count: n for cell in code(path) if (n := len(cell.source.splitlines())) > LONGEST_CELL}
    assert not long, f"cells of more than {LONGEST_CELL} lines: {long}"


def test_a_chapter_has_its_parts_in_their_order(path):
    text = prose(path)
    opening = ["# ", "**What you will be able to do**"]
    parts = [*opening, "## Exercises", "## Key takeaways", "**Further reading.**"]
    assert [text.find(part) for part in parts] == sorted(text.find(part) for part in parts)
    assert all(part in text for part in parts), [part for part in parts if part not in text]
    assert "does not cover" in text and "**Next:**" in text
    assert any("lab-prediction" in str(cell.outputs) for cell in code(path)), "no prediction"
    assert not (told := re.search(r"^\W*Prediction:.*", text, re.MULTILINE)), f"the reader predicts, not we: {told[0]}"
    assert any("lab-explorer" in str(cell.outputs) for cell in code(path)), "no explorer"


def cited_as(entry):
    """An entry of the bibliography in brackets, "Ba et al., 2016", and in a sentence, "Ba et al. (2016)"."""
    names = ["".join(person.last_names).strip("{}") for person in entry.persons.get("author", [])]
    by = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
    by, year = by or entry.fields["organization"], entry.fields["year"]
    return f"{by}, {year}", f"{by} ({year})"


def test_its_prose_reads_without_sphinx_and_names_terms_and_papers_as_they_are(path):
    text = prose(path)
    assert not ROLE.search(text), "markup that JupyterLab and Colab show as it is written: write a link"
    words = references.terms((ROOT / references.GLOSSARY).read_text("utf-8"))
    cited = {f"cite-{key}": entry for key, entry in parse_file(ROOT / "book/references.bib").entries.items()}
    for link in LINK.finditer(text):
        named, address, page, place = link.groups()
        assert place in (words if page == "glossary" else cited), f"nothing is at {address}"
        if page == "bibliography":
            in_brackets, in_a_sentence = cited_as(cited[place])
            bracketed = text[link.start() - 1] in "( " and text[link.end()] in ");" and named == in_brackets
            assert bracketed or named == in_a_sentence, f"{named!r} is not how {place} is cited"
    assert LINK.sub("", references.as_roles(text, words)) == references.as_roles(text, words), "a link that is no role"


def test_each_claim_is_confirmed_or_refuted_by_its_cell_whole_or_in_parts(path):
    for cell in code(path):
        for claim in re.findall(r"(?:Verdict|Split)\(\s*\"(C\d\d)\"", cell.source):
            assert f"claim-{claim}" in tags(cell), f"the page of claims finds {claim} by the tag claim-{claim}"
        for tag in tags(cell):
            if claim := re.fullmatch(r"claim-(C\d\d)", tag):
                shown = "".join(output.get("data", {}).get("text/plain", "") for output in cell.outputs)
                numbers = [*printed(shown)]
                parts = [f"{claim[1]}{letter}" for letter in string.ascii_lowercase[: len(numbers)]]
                assert numbers in ([claim[1]], parts), f"{tag} printed the verdicts {numbers}"


def test_starters_do_not_pass_and_solutions_do(path):
    marks = {"exercise": "✗○", "solution": "✓"}
    seen = {kind: [] for kind in marks}
    for cell in code(path):
        for tag in tags(cell):
            kind, _, name = tag.partition("-")
            if kind in marks:
                seen[kind].append(name)
                shown = cell.outputs[-1].data["text/plain"]
                assert shown[0] in marks[kind] and shown[1:].startswith(f" {name}"), f"{tag}: {shown}"
                assert ("no answer yet" in shown.split(": ", 1)[1][:13]) == (shown[0] == "○"), (
                    "unanswered looks unanswered"
                )
                assert kind == "exercise" or "hide-cell" in tags(cell), f"{tag} is not folded"
    assert len(seen["exercise"]) >= 3 and seen["exercise"] == seen["solution"]


def test_all_that_can_be_compared_is(path):
    """Left out is only what this machine decides: times, rounding, its own machine code. A reader's verdicts never."""
    ignored = [cell for cell in code(path) if "nbval-ignore-output" in tags(cell)]
    others = {tag for cell in code(path) for tag in tags(cell) if re.match("nbval|raises", tag)}
    assert others <= {"nbval-ignore-output"} and not any("NBVAL" in cell.source for cell in code(path))
    assert not [tag for cell in ignored for tag in tags(cell) if tag.startswith(("exercise-", "solution-"))]
    assert len(ignored) <= len(code(path)) / 4
