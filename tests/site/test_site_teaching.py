"""The page for instructors: every chapter in one week, and each exercise where it is judged."""

import re

import harness
import nbformat
import pytest
from bs4 import BeautifulSoup
from lab_site import notices, teaching


@pytest.fixture(scope="module")
def page(built):
    return BeautifulSoup((built / "book/teaching.html").read_text("utf-8"), "html.parser")


@pytest.fixture(scope="module")
def tables(page):
    """The course and the exercises: rows of cells."""
    found = [[row(["th", "td"]) for row in table("tr")][1:] for table in page.select("article table.lab-paths")]
    assert len(found) == 2
    return found


def test_every_chapter_has_one_week_of_ten(tables):
    course, _ = tables
    linked = [link["href"] for row in course for link in row[1]("a")]
    assert [row[0].b.get_text() for row in course] == [str(week) for week in range(1, 11)]
    assert sorted(linked) == sorted(f"../{name}.html" for name in harness.chapters())
    assert all(
        re.match(r"\d+\s(?:h|min).*; \d+ exercises, \d+ of them in the page", row[2].get_text()) for row in course
    )


def test_each_exercise_is_named_once_where_it_is_judged(tables, built):
    _, rows = tables
    expected = {}
    for name in harness.chapters():
        for cell in nbformat.read(harness.ROOT / f"{name}.ipynb", as_version=4).cells:
            tags = cell.metadata.get("tags", [])
            numbers = (tag.removeprefix("exercise-") for tag in tags if tag.startswith("exercise-"))
            expected |= dict.fromkeys(numbers, "in-page" in tags)
    shown = {}
    for row in rows:
        for is_in_page, cell in ((True, row[1]), (False, row[2])):
            shown |= {link.get_text(): is_in_page for link in cell("a")}
    assert shown == expected and len(shown) > 90


def test_the_links_to_exercises_arrive(tables, built):
    _, rows = tables
    for row in rows:
        links = [link["href"] for cell in row[1:] for link in cell("a")]
        text = (built / links[0].removeprefix("../").partition("#")[0]).read_text("utf-8")
        assert [link for link in links if f'id="{link.partition("#")[2]}"' not in text] == []


def test_an_exercise_without_a_heading_is_named(tmp_path):
    cell = nbformat.v4.new_code_cell(metadata={"tags": ["exercise-01.7"]})
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "01_a.ipynb")
    with pytest.raises(ValueError, match=r"01_a\.ipynb: exercise 01\.7 has no heading '### 01\.7 ★"):
        teaching.exercises(tmp_path / "01_a.ipynb")


def test_the_licences_of_others_are_on_the_site_and_whole(built):
    text = (built / notices.FILE).read_text("utf-8")
    packages = [*notices.DISTRIBUTIONS, "Font Awesome Free", "Bootstrap", "plotly.js", "mathjax", "source-sans-3"]
    assert all(name in text for name in packages)
    for sentence in ("SIL OPEN FONT LICENSE Version 1.1", "Redistribution and use in source", "Apache License"):
        assert sentence in text


def test_a_work_without_a_licence_stops_the_build():
    with pytest.raises(notices.ExtensionError, match=r"Something is carried by the site \(a thing\), and no text"):
        notices.entry("Something", "a thing", " ")
