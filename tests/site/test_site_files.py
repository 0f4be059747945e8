"""The built files without a browser: buttons, cell numbers, icons, the status page, nothing from third parties."""

import doctest
import functools
import importlib
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
import release
import yaml
from bs4 import BeautifulSoup
from lab_site import assets, icons, policy, status, styles

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


def test_every_link_inside_the_site_arrives(built):
    """Pages, places on them, files. (`make release` asks the same.)"""
    release.links(harness.ROOT)


def test_a_chapter_has_its_number_at_its_head_and_in_the_sidebar(chapter):
    number = chapter.name.partition("/")[2][:2]
    head = chapter.page.select_one(".lab-eyebrow").get_text(" ", strip=True)
    assert re.fullmatch(rf"Chapter {number} (The starting point|[IV]+ · .+) \d+ minutes to read", head)
    assert chapter.page.title.get_text().startswith(f"{number} ")
    sections = [link["href"] for link in chapter.page.select(".bd-sidebar-primary .lab-sections a")]
    assert sections == [f"#{title.parent['id']}" for title in chapter.page.select("article section > h2")] != []
    named = [link.get("data-number") for link in chapter.page.select(".bd-sidebar-primary .toctree-l1 > a")]
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


def test_the_table_of_contents_lists_every_notebook():
    there = {f"notebooks/{path.stem}" for path in harness.ROOT.glob("notebooks/*.ipynb")}
    assert set(harness.chapters()) == there


def test_the_status_page_shows_what_the_execution_stored_and_what_other_torches_say(built):
    page = parsed(built / "book/status.html")
    other = page.select_one("section#on-other-releases-of-torch")
    kept = status.other_torches(harness.ROOT)
    executed, compared = page.select("table")[0].select("tbody tr"), other.select("tbody tr")
    assert [head.get_text() for head in other.select("thead th")] == ["Chapter", *(f"torch {each}" for each in kept)]
    for name, row, other_row in zip(harness.chapters(), executed, compared, strict=True):
        known = status.facts(harness.ROOT / f"{name}.ipynb")
        cells = [cell.get_text() for cell in row.select("td")]
        assert cells[1:3] == [known["executed"], str(round(known["seconds"]))]
        assert all(known[key] in cells[3] for key in ("device", "python", "torch", "triton", "numpy"))
        found = [each["cells"].get(name.rpartition("/")[2]) for each in kept.values()]
        assert [cell.get_text() for cell in other_row.select("td")][1:] == [status.in_words(each) for each in found]
    moved = sum(len(cells) for each in kept.values() for cells in each["cells"].values())
    assert len(other.select("li")) == moved > 0


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
    said = {
        tuple(int(link["id"].removeprefix("cell-")) for link in mark.select(".lab-cell-number")): mark.summary
        for mark in page.select("details.lab-fold")
    }
    labels = {summary["aria-label"] for summary in said.values()}
    assert {"Code: the figure below", "Code: the table below", "Code: panel(), the explorer below"} < labels
    assert said[1, 2].select_one(".lab-tip").get_text() == "code, cells 1–2"
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
