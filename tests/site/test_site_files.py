"""The built files without a browser: buttons, cell numbers, icons, the status page, nothing from third parties."""

import doctest
import functools
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import harness
import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup
from lab_site import assets, icons, policy, status, styles, verdicts

SETTINGS = yaml.safe_load((harness.ROOT / "_config.yml").read_text("utf-8"))
REPOSITORY = SETTINGS["repository"]


@functools.cache
def parsed(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text("utf-8"), "lxml")


@pytest.fixture(params=harness.chapters(), scope="module")
def chapter(request, built):
    """A chapter's notebook and its page."""
    notebook = nbformat.read(harness.ROOT / f"{request.param}.ipynb", as_version=4)
    page = parsed(built / f"{request.param}.html")
    return SimpleNamespace(name=request.param, notebook=notebook, page=page)


def addresses(page):
    return {link["href"] for link in page.select("a[href]")}


EXTENSION = sorted((harness.ROOT / "book/_ext/lab_site").glob("*.py"))


@pytest.mark.parametrize("name", [path.stem for path in EXTENSION if ">>> " in path.read_text("utf-8")])
def test_the_extensions_examples_print_what_stands_below_them(name):
    failed, tried = doctest.testmod(importlib.import_module(f"lab_site.{name}"), optionflags=doctest.ELLIPSIS)
    assert tried and not failed


def test_the_librarys_page_has_all_that_its_faces_hand_out(built):
    page = parsed(built / "book/library.html")
    named = {heading.get_text().removesuffix("#").strip() for heading in page.select("article h2")}
    packages = {f"compile_lab.{path.parent.name}" for path in (harness.ROOT / "compile_lab").glob("*/__init__.py")}
    faces = {each: importlib.import_module(each) for each in packages}
    assert named == {each for each, face in faces.items() if hasattr(face, "__all__")}
    doors = {f"{each}.{name}" for each in named for name in faces[each].__all__ if callable(getattr(faces[each], name))}
    assert doors == {entry["id"] for entry in page.select("dl.py > dt")}
    assert len(page.select("dl.py div.doctest")) > 100, "each with its example"


def test_the_launch_buttons_lead_to_this_notebook_in_this_repository(chapter, built):
    owner_and_name = REPOSITORY["url"].removeprefix("https://github.com/")
    path = f"{owner_and_name}/blob/{REPOSITORY['branch']}/{chapter.name}.ipynb"
    assert f"https://colab.research.google.com/github/{path}" in addresses(chapter.page)
    assert REPOSITORY["url"] in addresses(chapter.page)
    download = f"../_sources/{chapter.name}.ipynb"
    assert download in addresses(chapter.page)
    assert (built / f"_sources/{chapter.name}.ipynb").read_bytes() == (
        harness.ROOT / f"{chapter.name}.ipynb"
    ).read_bytes()


@pytest.fixture(scope="module")
def places(built):
    """Every place on the pages of terms and of papers."""
    pages = (f"book/{name}.html" for name in ("glossary", "bibliography"))
    return {f"../{page}#{found['id']}" for page in pages for found in parsed(built / page).select("[id]")}


def test_terms_and_papers_are_links_within_the_site(chapter, places):
    named = {link for link in addresses(chapter.page) if re.search(r"book/(glossary|bibliography)\.html#", link)}
    assert named and named <= places


def test_a_chapter_has_its_number_at_its_head_and_in_every_sidebar(chapter, built):
    number = chapter.name.partition("/")[2][:2]
    head = chapter.page.select_one(".lab-eyebrow").get_text(" ", strip=True)
    assert re.fullmatch(rf"Chapter {number} (The starting point|[IV]+ · .+) \d+ minutes to read", head)
    assert chapter.page.title.get_text().startswith(f"{number} ")
    sections = [link["href"] for link in chapter.page.select(".bd-sidebar-primary .lab-sections a")]
    assert sections == [f"#{title.parent['id']}" for title in chapter.page.select("article section > h2")] != []
    for page in (chapter.page, parsed(built / "book/index.html")):
        named = [link.get("data-number") for link in page.select(".bd-sidebar-primary .toctree-l1 > a")]
        assert [each for each in named if each] == [name.partition("/")[2][:2] for name in harness.chapters()]


@pytest.mark.slow
def test_a_second_build_gives_the_same_bytes(built, tmp_path):
    shutil.copytree(built.parent, tmp_path / "_build", copy_function=shutil.copy2)
    book = Path(sys.executable).with_name("jupyter-book")
    again = [book, "build", ".", "--path-output", tmp_path, "-W", "-n", "--keep-going"]
    built_again = subprocess.run(again, cwd=harness.ROOT, capture_output=True, text=True)
    assert built_again.returncode == 0, built_again.stderr
    trees = [
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (built, tmp_path / "_build/html")
    ]
    assert {path for path in trees[0].keys() | trees[1].keys() if trees[0].get(path) != trees[1].get(path)} == set()


def test_cells_are_numbered_as_a_fresh_run_counts_them(chapter):
    shown = [tag.get_text() for tag in chapter.page.select("a.lab-cell-number")]
    shown.sort(key=lambda name: int(name.split()[1]))  # the machine's stands below the picture
    code = [cell for cell in chapter.notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    assert shown == [f"cell {number}" for number in range(1, len(code) + 1)]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))


def test_the_landing_page_links_every_chapter_and_no_other(built):
    page = parsed(built / "book/index.html")
    linked = {link["href"] for link in page.select("article .lab-card a")}
    assert linked == {f"../{name}.html" for name in harness.chapters()}
    assert len(page.select("article .lab-card")) == len(harness.chapters())


def test_the_table_of_contents_lists_every_notebook():
    there = {f"notebooks/{path.stem}" for path in harness.ROOT.glob("notebooks/*.ipynb")}
    assert set(harness.chapters()) == there


def test_the_status_page_shows_what_the_execution_stored(built):
    rows = parsed(built / "book/status.html").select("table")[0].select("tbody tr")
    for row, name in zip(rows, harness.chapters(), strict=True):
        known = status.facts(harness.ROOT / f"{name}.ipynb")
        cells = [cell.get_text() for cell in row.select("td")]
        assert cells[1:3] == [known["executed"], str(round(known["seconds"]))]
        assert all(known[key] in cells[3] for key in ("device", "python", "torch", "triton", "numpy"))


@pytest.fixture(scope="module")
def claims(built):
    return parsed(built / "book/claims.html")


def test_the_page_of_claims_gathers_every_verdict(claims):
    shown = [verdict.strong.get_text().split(",")[0] for verdict in claims.select(".lab-verdict")]
    stored = [claim for name in harness.chapters() for claim, _, _ in verdicts.claims(harness.ROOT / f"{name}.ipynb")]
    assert shown == stored and len(set(stored)) == len(stored)
    linked = {link["href"].partition("#")[0] for link in claims.select('article a[href*="#cell-"]')}
    assert linked and linked <= {f"../{name}.html" for name in harness.chapters()}
    errors = [each for name in harness.chapters() for each in verdicts.silent_errors(harness.ROOT / f"{name}.ipynb")]
    assert bool(claims.select(".lab-silent")) == bool(errors)


def test_the_page_of_claims_links_each_claims_cell_of_a_chapter(claims, chapter):
    for link in claims.select(f'article a[href^="../{chapter.name}.html#cell-"]'):
        target = chapter.page.find(id=link["href"].partition("#")[2])
        claim = link.get_text().rsplit(" ", 1)[1]
        tag = "tag_silent-errors" if claim == "them" else f"tag_claim-{claim}"
        cell = target.find_parent(class_="cell")
        assert tag in cell["class"], (link["href"], cell["class"])


def test_silent_errors_are_gathered_from_cells_of_their_tag_that_ran(tmp_path):
    def cell(tag, outputs):
        return {"cell_type": "code", "execution_count": 7, "metadata": {"tags": [tag]}, "outputs": outputs}

    data = {"text/html": ["<p>one</p>"]}
    ran = [cell("silent-errors", [{"data": data}]), cell("silent-errors", []), cell("claim-C01", [{"data": data}])]
    path = tmp_path / "14.ipynb"
    path.write_text(json.dumps({"cells": ran}))
    assert verdicts.silent_errors(path) == [(7, data)]
    assert [name for name, *_ in verdicts.claims(path)] == ["C01"]


def test_a_notebook_that_never_ran_says_so(tmp_path):
    path = tmp_path / "new.ipynb"
    path.write_text(json.dumps({"metadata": {}, "cells": [], "nbformat": 4, "nbformat_minor": 5}))
    assert "not executed yet" in status.row(path, "new")


def test_the_icon_fonts_hold_every_icon_that_a_page_names(built):
    from fontTools.ttLib import TTFont

    vendor = built / "_static/vendor"
    known = set().union(*(TTFont(path).getBestCmap() for path in vendor.glob("icons-*.woff2")))
    rules = icons.glyphs((vendor / "icons.css").read_text("utf-8").replace("::before{", ":before{"))
    for path in harness.pages():
        names = icons.class_names((built / path).read_text("utf-8"))
        wanted = {name for name in names if name.startswith("fa-")} - {"fa-solid", "fa-brands", "fa-regular", "fa-lg"}
        assert wanted, path
        assert wanted <= set(rules) and {rules[name] for name in wanted} <= known, path
    assert sum(path.stat().st_size for path in vendor.glob("icons*")) < 10_000


def test_a_second_build_finds_the_icons_that_stand_in_a_script_and_forgets_the_scripts_of_no_page(tmp_path):
    page, vendor = tmp_path / "page.html", tmp_path / "_static/vendor"
    (tmp_path / policy.FOLDER).mkdir(parents=True)
    vendor.mkdir()
    for name in icons.STYLES:
        (tmp_path / "_static" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "_static" / name).write_text("")
    page.write_text(
        """<i class="fa-solid fa-list"></i><script>box.innerHTML = '<i class="fa-solid fa-sun"></i>'</script>"""
    )
    (tmp_path / policy.FOLDER / "0123.js").write_text("of a page that is gone")
    app, built = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path), []
    for _ in range(2):
        icons.write(app, None)
        policy.apply(app, None)
        built.append({path: path.read_bytes() for path in sorted(tmp_path.rglob("*.*")) if path.is_file()})
    assert built[0] == built[1] and b"fa-sun" in built[1][vendor / "icons.css"]
    (script,) = (tmp_path / policy.FOLDER).iterdir()
    assert script.read_text().startswith("box.innerHTML") and script.name in page.read_text()


def test_no_page_or_style_loads_anything_from_elsewhere(built):
    """What a browser would fetch: sources, style sheets, imports. (Links that a reader follows are no such thing.)"""
    loads = re.compile(r"""(?:\ssrc=|url\(|@import\s|<link[^>]+href=|\bimport\()\s*["']?(?:https?:)?//[^"')\s>]+""")
    for path in [*built.rglob("*.html"), *built.rglob("*.css")]:
        found = [hit for hit in loads.findall(path.read_text("utf-8")) if 'rel="canonical"' not in hit]
        assert found == [], path.name


def test_each_folded_cell_is_behind_one_mark_which_says_what_it_made(built):
    page = parsed(built / "notebooks/01_graph_breaks.html")
    marks = page.select("details.lab-fold")
    behind = {
        tuple(int(link["id"].removeprefix("cell-")) for link in mark.select(".lab-cell-number")): mark.summary
        for mark in marks
    }
    said = {cells: summary["aria-label"] for cells, summary in behind.items()}
    assert said[3,] == "Code: the figure below" and said[1, 2] == "Code: which machine this is"
    assert {"Code: the table below", "Code: the verdict below", "Code: the prediction below"} < set(said.values())
    assert "Code: panel(), the explorer below" in said.values()
    assert "Code: announces(), item_then_helper(), the table below" in said.values()
    assert behind[1, 2].select_one(".lab-tip").get_text() == "code, cells 1–2"
    folded = [cell for cells in said for cell in cells]
    assert len(folded) == len(set(folded)) and not page.select(
        "details.above-input:not(.tag_solution details, [class*=tag_solution] details)"
    )


def test_missing_packages_stop_the_build_with_the_remedy(tmp_path):
    with pytest.raises(assets.ExtensionError, match="Run 'make book'"):
        assets.require(SimpleNamespace(srcdir=tmp_path))


def test_site_and_plots_share_one_palette():
    from compile_lab.page.figures import PALETTE

    style = (harness.ROOT / "book/site_static/lab.css").read_text("utf-8")
    declared = dict(re.findall(r"--lab-(\w+): (#[0-9A-F]{6});", style))
    assert declared == PALETTE


def test_a_site_that_is_missing_or_old_is_refused_with_the_remedy(built, monkeypatch, tmp_path):
    monkeypatch.setattr(harness, "SITE", tmp_path)
    assert "missing" in harness.stale() and "make book" in harness.stale()
    start = tmp_path / "index.html"
    start.touch()
    assert harness.stale() is None
    os.utime(start, (0, 0))
    assert "older" in harness.stale() and "make book" in harness.stale()


@pytest.mark.slow
def test_the_styles_of_third_parties_keep_every_selector_whose_classes_are_in_a_page(built):
    def selectors(style):
        listed = (each.strip() for heads in re.findall(r"([^{}@;/]+)\{", style) for each in heads.split(","))
        return {each: set(re.findall(r"\.([a-zA-Z][\w-]*)", each)) for each in listed}

    used = set()
    for page in built.rglob("*.html"):
        used.update(name for element in parsed(page).find_all(class_=True) for name in element["class"])
    assert {"btn", "d-flex"} <= used
    for source, name in styles.STYLES.items():
        whole, kept = (path.read_text("utf-8") for path in (source, built / "_static" / name))
        named = {each for each, classes in selectors(whole).items() if "[" not in each and classes and classes <= used}
        assert named <= selectors(kept).keys(), name
        assert len(kept) < len(whole) / 3, name
