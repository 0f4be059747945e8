"""The book by Sphinx alone: what `_config.yml` says arrives, as Jupyter Book understands it; two builds compared."""

import runpy
import sys
from pathlib import Path

import pytest
import same_pages
import yaml
from jupyter_book.config import get_final_config

ROOT = Path(__file__).resolve().parents[1]
BY_ITSELF = {
    *(".comments_config.hypothesis", ".comments_config.utterances", ".latex_engine", ".pygments_style"),
    *(".use_jupyterbook_latex", ".use_multitoc_numbering", ".nb_output_stderr", ".html_baseurl"),
    *(f".nb_execution_{name}" for name in ("allow_errors", "cache_path", "excludepatterns", "in_temp", "timeout")),
    *(f".html_theme_options.{name}" for name in ("announcement", "extra_footer")),
}
"""What Jupyter Book sets without being asked: its own, or what Sphinx, its extensions and the theme do anyway."""
OF_THE_NEWEST = {"book/sphinx/static", "book/sphinx/templates"}
BY_ITSELF_IN = (".html_theme_options.launch_buttons.", ".html_theme_options.analytics.")


@pytest.fixture
def conf(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    return runpy.run_path(str(ROOT / "book/sphinx/conf.py"))


@pytest.fixture
def by_jupyter_book(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    options = {"latex_individualpages": False, "external_toc_path": "_toc.yml"}
    return get_final_config(user_yaml=ROOT / "_config.yml", cli_config=options, sourcedir=ROOT)[0]


def leaves(value, name=""):
    """``{"a": {"b": [1, 2]}}`` as ``{"a.b": [1, 2]}``."""
    if not isinstance(value, dict):
        return {name: value}
    return {inner: leaf for key, each in value.items() for inner, leaf in leaves(each, f"{name}.{key}").items()}


def as_list(value):
    return value if isinstance(value, list) else [value]


@pytest.mark.slow
def test_every_setting_means_what_it_means_to_jupyter_book(conf, by_jupyter_book):
    here, there = leaves(conf["settings"](conf["CONFIG"])), leaves(by_jupyter_book)
    for name in conf["PATHS"]:  # from beside conf.py, which has a folder more for styles and templates
        found, paths = (as_list(each[f".{name}"]) for each in (here, there))
        assert {str(Path(path).relative_to(ROOT)) for path in found} - OF_THE_NEWEST == set(paths)
    alone = {name for name in there.keys() - here.keys() if not name.startswith(BY_ITSELF_IN)}
    assert alone == BY_ITSELF
    differs = {name for name in here if name not in there or here[name] != there[name]}
    assert differs - {f".{name}" for name in conf["PATHS"]} == {
        *(".extensions", ".exclude_patterns", ".html_css_files"),
        *(f".html_theme_options.{name}" for name in conf["NEW_IN_THEME"]),
    }
    assert there[".html_css_files"] == here[".html_css_files"][:-1]
    assert set(there[".extensions"]) - set(here[".extensions"]) == set(conf["EXTENSIONS_LEFT_OUT"])
    always = {"Thumbs.db", ".DS_Store", "**.ipynb_checkpoints"}
    assert set(there[".exclude_patterns"]) - set(here[".exclude_patterns"]) == always


@pytest.mark.slow
def test_a_setting_without_a_name_is_refused(conf):
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    config["html"]["announcement"] = "Soon"
    with pytest.raises(ValueError, match=r"html\.announcement.*add it to NAMES"):
        conf["settings"](config)


def test_everything_that_replaces_a_package_is_pinned():
    lines = (ROOT / "book/sphinx/requirements.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert pins and all(line.count("==") == 1 for line in pins)
    assert {"Sphinx", "sphinx-book-theme", "pydata-sphinx-theme"} <= {line.partition("==")[0] for line in pins}


PAGE = """<html><head><title>A page</title></head><body>
<div class="bd-sidebar-primary"><nav><a href="b.html">B</a></nav></div>
<div class="bd-header-article"><button aria-label="Print">p</button></div><article class="bd-article">
<h1 id="a">A</h1><p>Some words <a href="b.html#c">there</a></p><figure>drawn</figure></article></body></html>"""


@pytest.mark.parametrize(
    ("old", "new", "views"),
    [
        ('class="bd-article"', 'class="bd-article another"', []),
        ("A page", "Another", ["title"]),
        ('id="a"', 'id="z"', ["places"]),
        ("<h1 id", "<h2 id", ["headings"]),
        ("b.html#c", "b.html#d", ["links"]),
        ("Some", "Other", ["text"]),
        ("<figure>drawn</figure>", "drawn", ["parts"]),
        ("figure>", "pre>", ["parts"]),
        ('<a href="b.html">', '<a href="c.html">', ["sidebar"]),
        ("Print", "Share", ["buttons"]),
    ],
)
def test_what_differs_between_two_pages_is_named(old, new, views):
    assert PAGE.count(old)
    assert list(same_pages.differences(PAGE, PAGE.replace(old, new))) == views


def test_two_sites_are_compared_page_by_page(tmp_path, monkeypatch, capsys):
    for site, names in {"one": ("index", "a", "gone"), "other": ("index", "a", "new")}.items():
        for name in names:
            path = tmp_path / site / f"{name}.html"
            path.parent.mkdir(exist_ok=True)
            path.write_text(PAGE if name != "a" else PAGE.replace("Some", site))
    (tmp_path / "one/_static").mkdir()
    (tmp_path / "one/_static/x.html").write_text("no page")
    monkeypatch.setattr(sys, "argv", ["same_pages.py", str(tmp_path / "one"), str(tmp_path / "other")])
    assert same_pages.main() == 1
    shown = capsys.readouterr().out
    for line in ("gone.html: only in", "new.html: only in", "a.html: text", "-one words", "2 pages, 1 the same"):
        assert line in shown, line
    monkeypatch.setattr(sys, "argv", ["same_pages.py", str(tmp_path / "one"), str(tmp_path / "one")])
    assert same_pages.main() == 0 and "what differs: nothing" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["same_pages.py", str(tmp_path), str(tmp_path / "one")])
    with pytest.raises(SystemExit):
        same_pages.main()
    assert "make book SPHINX=plain" in capsys.readouterr().err
