"""The page for instructors: each exercise where it is judged; and whose work the site carries."""

import harness
import nbformat
import pytest
from bs4 import BeautifulSoup
from lab_site import live, notices, schedules, teaching


def test_each_exercise_is_named_once_where_it_is_judged(built):
    page = BeautifulSoup((built / "book/teaching.html").read_text("utf-8"), "html.parser")
    _, table = page.select("article table.lab-paths")  # the course, and where each exercise is judged
    rows = [row(["th", "td"]) for row in table("tr")][1:]
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


def test_an_exercise_without_a_heading_is_named(tmp_path):
    cell = nbformat.v4.new_code_cell(metadata={"tags": ["exercise-01.7"]})
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "01_a.ipynb")
    with pytest.raises(ValueError, match=r"01_a\.ipynb: exercise 01\.7 has no heading '### 01\.7 ★"):
        teaching.exercises(tmp_path / "01_a.ipynb")


def test_the_licences_of_others_are_on_the_site_and_whole(built):
    text, of_python = (built / notices.FILE).read_text("utf-8"), built / live.FOLDER
    packages = [*notices.DISTRIBUTIONS, "Font Awesome Free", "Bootstrap", "plotly.js", "mathjax", "source-sans-3"]
    assert all(name in text for name in packages)
    for sentence in ("SIL OPEN FONT LICENSE Version 1.1", "Redistribution and use in source", "Apache License"):
        assert sentence in text
    notice = (of_python / "NOTICE.txt").read_text("utf-8")
    assert all(work in notice for work in ("Pyodide", "Mozilla Public License 2.0", "CPython", schedules.PLACE))
    assert "Redistributions in binary form must reproduce" in (of_python / "torch-LICENSE.txt").read_text("utf-8")


def test_a_work_without_a_licence_stops_the_build():
    with pytest.raises(notices.ExtensionError, match=r"Something is carried by the site \(a thing\), and no text"):
        notices.entry("Something", "a thing", " ")
