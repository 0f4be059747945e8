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
MARK = "<figure class='lab-figure m-figure'><p>told</p><div class='m-body'><i title='told'></i></div></figure>"


def notebook(tmp_path, *cells):
    path = tmp_path / "00_none.ipynb"
    made = [
        {"execution_count": at, "metadata": {"tags": [tag]}, "outputs": [{"data": {"text/html": [shown]}}]}
        for at, (tag, shown) in enumerate(cells, 1)
    ]
    path.write_text(json.dumps({"cells": made}), "utf-8")
    return path


def test_a_card_takes_the_opening_as_it_is_stored_without_what_is_told_on_hovering(tmp_path):
    path = notebook(tmp_path, ("setup", ""), ("opening", DRAWING))
    assert landing.opening(path) == '<svg viewbox="0 0 1 1"><rect></rect></svg>'
    assert landing.tagged(path, "opening") == [(2, DRAWING)]
    assert landing.opening(notebook(tmp_path, ("opening", MARK))) == '<div class="m-figure"><i></i></div>'


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


def test_the_journey_shows_all_its_stages_at_once_and_the_numbers_follow(shared):
    page = shared(PAGE, width=1440).page
    stages = page.locator("ol.lab-journey > li")
    boxes = [stage.bounding_box() for stage in stages.all()]
    assert len(boxes) == STAGES and len({box["x"] for box in boxes}) == 3 == len({box["y"] for box in boxes})
    assert boxes[0]["y"] < 500, "it begins on the first screen"
    assert page.locator(".lab-payoff li").count() >= 4
    for shown in page.locator(".lab-payoff li").all_inner_texts():
        assert re.search(r"\d", shown.splitlines()[0]) and re.search(r"20\d\d-\d\d-\d\d", shown)
    page.set_viewport_size({"width": 390, "height": 844})
    assert len({stage.bounding_box()["x"] for stage in stages.all()}) == 1
    page.set_viewport_size({"width": 1440, "height": 900})


def test_each_stage_leads_to_the_chapter_about_it(shared):
    links = shared(PAGE, width=1440).page.locator("ol.lab-journey h4 a")
    chapters = [f"../{name}.html" for name in CHAPTERS]
    assert links.count() == STAGES and all(link.get_attribute("href") in chapters for link in links.all())


def test_the_journey_is_whole_without_scripts_and_on_paper(visit, shared):
    page = visit(PAGE, java_script_enabled=False).page
    stages = page.locator("ol.lab-journey > li")
    assert stages.count() == STAGES and all(stage.is_visible() for stage in stages.all())
    page = shared(PAGE, width=1440).page
    page.emulate_media(media="print")
    assert all(stage.is_visible() for stage in page.locator("ol.lab-journey > li").all())
    page.emulate_media(media="screen")


def test_each_chapter_has_a_card_with_its_picture_and_a_question(shared):
    page = shared(PAGE, width=1440).page
    cards = page.locator(".lab-card:not(.lab-coming)")
    assert cards.count() == len(CHAPTERS)
    for card, name in zip(cards.all(), CHAPTERS, strict=True):
        assert card.locator("a").get_attribute("href").endswith(f"{name.rpartition('/')[2]}.html")
        assert card.locator(".lab-card-picture > *").bounding_box()["height"] > 80
        assert card.locator("> p").inner_text().endswith("?")


def test_every_number_leads_to_its_cell(shared, built):
    for link in shared(PAGE, width=1440).page.locator(".lab-payoff li > a, .lab-shown > .lab-note a").all():
        path, _, cell = link.get_attribute("href").removeprefix("../").partition("#")
        assert f'id="{cell}"' in (built / path).read_text("utf-8")
