"""Slides: what stands on one, what is for the speaker, and that nothing gives an answer away before its question."""

import re

import nbformat
import pytest
import slides
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ASKED = """<section class="lab-prediction"><p class="lab-question">How many?</p>
<div class="lab-answer"><p class="lab-measured">Answer: <strong>7</strong></p></div>
<script type="application/json" class="lab-asked">{"question": "How many?", "choices": ["6", "7"]}</script></section>"""


def shown(html, **more):
    return new_output("execute_result", {"text/html": html, "text/plain": "x", **more})


def folded(*outputs, tags=()):
    return new_code_cell("made_up = 1", outputs=[*outputs], metadata={"tags": ["hide-input", *tags]})


CHAPTER = new_notebook(
    cells=[
        new_markdown_cell("# A chapter\n\nA hook."),
        new_code_cell("import setup_of_the_book", metadata={"tags": ["setup", "hide-input"]}),
        new_markdown_cell("## A section\n\nProse of the section.\n\n- a point"),
        folded(shown("<figure>first picture</figure>")),
        folded(shown("<figure>second picture</figure>")),
        folded(shown(ASKED)),
        new_markdown_cell("What came of it."),
        new_code_cell("visible = 2", outputs=[new_output("stream", text="printed")]),
        folded(shown('<details class="lab-behind">a closed listing</details>')),
        new_markdown_cell("## Exercises\n\n### 01.1 ★ Do it\n\nWrite it."),
        new_code_cell("answer = ...", metadata={"tags": ["exercise-01.1"]}),
        new_code_cell("answer = 42", metadata={"tags": ["solution-01.1", "hide-cell"]}),
    ]
)


@pytest.fixture(scope="module")
def made():
    return slides.slides(CHAPTER)


def kind(cell):
    return cell.metadata.slideshow.slide_type


def words(cell):
    return cell.source + "".join(output.get("data", {}).get("text/html", "") for output in cell.get("outputs", []))


def text_of(made, *kinds):
    return "\n".join(words(cell) for cell in made.cells if not kinds or kind(cell) in kinds)


def test_headings_begin_slides_and_prose_is_for_the_speaker(made):
    begins = [cell.source for cell in made.cells if kind(cell) == "slide"]
    assert begins == ["# A chapter", "## A section", "## Exercises"]
    notes = text_of(made, "notes")
    assert "Prose of the section." in notes and "What came of it." in notes
    for on_a_slide in ("A hook.", "- a point", "Write it.", "visible = 2", "first picture"):
        assert on_a_slide not in notes and on_a_slide in text_of(made)


def test_setup_listings_folded_code_and_solutions_are_left_out(made):
    hidden = [cell for cell in made.cells if cell.metadata.get("transient", {}).get("remove_source")]
    assert [cell.source for cell in hidden if cell.source] == ["made_up = 1"] * 2
    for gone in ("setup_of_the_book", "42", "answer = ...", "a closed listing"):
        assert gone not in text_of(made)


def test_a_second_picture_and_an_answer_come_on_slides_of_their_own(made):
    where, at = {}, 0
    for cell in made.cells:
        at += kind(cell) in ("slide", "subslide")
        for sign in ("first picture", "second picture", "How many?", "Answer: ", "visible = 2"):
            where.setdefault(sign, at) if sign in words(cell) else None
    assert len(set(where.values())) == 5 and list(where.values()) == sorted(where.values())
    question = next(words(cell) for cell in made.cells if "How many?" in words(cell))
    assert "6 · 7" in question and "lab-asked" not in text_of(made)
    assert "<section" not in text_of(made), "it would be a slide"


def test_blocks_keep_a_fence_whole():
    assert slides.blocks("a\n\n```\nb\n\nc\n```\n\nd") == ["a", "```\nb\n\nc\n```", "d"]


def test_links_to_chapters_lead_to_the_published_ones():
    site = f"{slides.spellings(slides.current())[2]}/notebooks"
    assert slides.typeset("[x](06_modes.ipynb#a) `$no$`") == f"[x]({site}/06_modes.html#a) `$no$`"


def test_a_file_of_slides_loads_nothing(tmp_path):
    path = tmp_path / "01_a.ipynb"
    notebook = nbformat.from_dict(CHAPTER)
    notebook.cells.append(folded(shown('<div class="lab-plot"><script type="x">{"data": []}</script></div>')))
    nbformat.write(notebook, path)
    page = slides.deck_of(path)
    assert "<title>01 A chapter</title>" in page and "Reveal.initialize" in page and "Plotly" in page
    markup = re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(?:src=|<link|url\(|@import)""", markup) and "made_up" not in markup
    assert page.count('<aside class="notes">') == 2
    assert not re.search(r"url\(\s*['\"]?(?:https?:)?//|@import", page.partition("</head>")[0])
