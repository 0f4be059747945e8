"""The landing page: the journey of one line, the numbers, and the route as cards, all out of the chapters."""

import json
import re
from types import SimpleNamespace

import harness
import pytest
from lab_site import landing
from sphinx.errors import ExtensionError

PAGE = "book/index.html"
STAGES = 9
CHAPTERS = harness.chapters()
SVG = "<svg viewBox='0 0 1 1'><rect><title>told</title></rect></svg>"
DRAWING = f"<figure class='lab-figure'><div class='lab-drawing'>{SVG}</div></figure>"


def notebook(tmp_path, *cells):
    path = tmp_path / "00_none.ipynb"
    made = [
        {"execution_count": at, "metadata": {"tags": [tag]}, "outputs": [{"data": {"text/html": [shown]}}]}
        for at, (tag, shown) in enumerate(cells, 1)
    ]
    path.write_text(json.dumps({"cells": made}), "utf-8")
    return path


@pytest.mark.parametrize("cells", [[], [("opening", DRAWING)] * 2, [("opening", "<p>no picture</p>")]])
def test_a_chapter_without_its_one_picture_is_named(tmp_path, cells):
    with pytest.raises(ExtensionError, match=r"00_none\.ipynb: one cell is tagged 'opening'"):
        landing.opening(notebook(tmp_path, *cells))


@pytest.fixture
def chapter(tmp_path):
    """What a directive finds under a name, on a page with two cards, of which the contents have one."""
    notebook(tmp_path).rename(there := tmp_path / "00_there.ipynb")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: page\nchapters:\n- file: 00_there\n", "utf-8")
    cards = [f"```{{lab-chapter}} {name}\nWhy?\n```\n" for name in ("00_there", "01_gone")]
    (tmp_path / "page.md").write_text("".join(cards), "utf-8")
    env = SimpleNamespace(docname="page", doc2path=lambda name: tmp_path / f"{name}.md", note_dependency=str)
    config = SimpleNamespace(root_doc="page")
    directive = SimpleNamespace(root=tmp_path, env=env, config=config, read=lambda path: path, error=ValueError)
    return lambda named: landing.FromChapters.chapter(directive, named), there


def test_of_a_chapter_that_the_contents_leave_out_nothing_is_shown_and_a_slip_of_the_pen_is_named(chapter):
    find, there = chapter
    assert [find(named) for named in ("00", "00_there", "01", "01_gone")] == [there, there, None, None]
    for slip in ("10", "0", "00_their", ""):
        with pytest.raises(ValueError, match=f"there is no chapter '{slip}'"):
            find(slip)


@pytest.mark.browser
def test_the_journey_is_whole_without_scripts_and_on_paper_and_the_numbers_have_their_day(visit):
    page = visit(PAGE, java_script_enabled=False).page
    stages = page.locator("ol.lab-journey > li")
    assert stages.count() == STAGES and all(stage.is_visible() for stage in stages.all())
    payoffs = page.locator(".lab-payoff li").all_inner_texts()
    assert len(payoffs) >= 4
    for shown in payoffs:
        assert re.search(r"\d", shown.splitlines()[0]) and re.search(r"20\d\d-\d\d-\d\d", shown)
    page.emulate_media(media="print")
    assert all(stage.is_visible() for stage in stages.all())


@pytest.mark.browser
def test_each_chapter_has_a_card_with_its_picture_and_a_question(visit):
    page = visit(PAGE, width=1440).page
    cards = page.locator(".lab-card:not(.lab-coming)")
    assert cards.count() == len(CHAPTERS)
    for card, name in zip(cards.all(), CHAPTERS, strict=True):
        assert card.locator("a").get_attribute("href").endswith(f"{name.rpartition('/')[2]}.html")
        assert card.locator(".lab-card-picture > *").bounding_box()["height"] > 80
        assert card.locator("> p").inner_text().endswith("?")
