"""A release is refused for the first thing that is missing, with the way out; a version is written into every place."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import nbformat
import pytest
import release
import repository
from sources import sources

ROOT = Path(__file__).resolve().parents[1]
FILES = (
    *repository.TEXTS,
    *release.LICENCES,
    "pyproject.toml",
    "CHANGELOG.md",
    "requirements.txt",
    "paper.bib",
    "book/references.bib",
)
NUMBER, DAY = "1.0.0", "2026-12-01"
NAME = "01_graph_breaks"


def notebook_of(root, name=NAME):
    return root / f"notebooks/{name}.ipynb"


def rewritten(path, *edits):
    text = path.read_text("utf-8")
    for old, new in edits:
        assert old in text, f"{path.name} has no {old!r}: this test proves nothing"
        text = text.replace(old, new)
    path.write_text(text, "utf-8")


@pytest.fixture(scope="session")
def released(tmp_path_factory):
    """The files that a release is about, with one notebook, after ``make release VERSION=1.0.0``."""
    root = tmp_path_factory.mktemp("release")
    for name in (*FILES, f"notebooks/{NAME}.ipynb"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    notebook = nbformat.read(notebook_of(root), as_version=4)
    notebook.metadata["compile_lab"]["sources"] = sources(notebook)  # whatever state the chapter is in just now
    nbformat.write(notebook, notebook_of(root))
    shutil.copy(notebook_of(root), root / "before.ipynb")
    release.write_version(root, NUMBER, DAY)
    return root


@pytest.fixture
def copy(released, tmp_path):
    return Path(shutil.copytree(released, tmp_path / "book"))


def test_a_version_is_written_into_every_place_and_outputs_stay(copy):
    assert repository.version(copy) == NUMBER
    assert release.citation_of(copy)["version"] == release.deposit_of(copy)["version"] == NUMBER
    assert release.citation_of(copy)["date-released"] == DAY
    assert release.SECTION.findall((copy / "CHANGELOG.md").read_text("utf-8"))[0] == f"{NUMBER} ({DAY})"
    before, after = (nbformat.read(path, as_version=4) for path in (copy / "before.ipynb", notebook_of(copy)))
    (setup,) = (cell for cell in after.cells if "setup" in cell.metadata.get("tags", []))
    assert f"/archive/refs/tags/v{NUMBER}.zip" in setup.source and "main.zip" not in setup.source
    assert [cell.get("outputs") for cell in after.cells] == [cell.get("outputs") for cell in before.cells]
    changed = [old for old, new in zip(before.cells, after.cells, strict=True) if old.source != new.source]
    assert [cell.metadata.tags[0] for cell in changed] == ["setup"]
    assert after.metadata["compile_lab"]["sources"] == sources(after)
    assert f"/archive/refs/tags/v{NUMBER}.zip" in (copy / "book/your_model.md").read_text("utf-8")


def test_what_is_written_next_installs_main_again(copy):
    rewritten(copy / "pyproject.toml", (f'version = "{NUMBER}"', 'version = "1.1.0.dev0"'))
    repository.move(copy, repository.current(copy))
    assert "/archive/main.zip" in notebook_of(copy).read_text("utf-8")


@pytest.mark.parametrize("number", ["1.0", "v1.0.0", "1.0.0.dev0", ""])
def test_what_is_no_version_changes_nothing(copy, number):
    before = {path: path.read_bytes() for path in copy.rglob("*.*") if path.is_file()}
    with pytest.raises(ValueError, match=r"three numbers, as in 1\.0\.0"):
        release.write_version(copy, number, DAY)
    assert {path: path.read_bytes() for path in before} == before


QUICK = (release.versions, release.changelog, release.licences, release.citation, release.notebooks, release.paper)


@pytest.mark.parametrize("check", QUICK, ids=lambda check: check.__name__)
def test_a_release_that_lacks_nothing_passes(released, check):
    check(released)


TROUBLES = {
    "a version that is being written": (
        release.versions,
        [("pyproject.toml", (f'version = "{NUMBER}"', 'version = "1.0.0.dev0"'))],
        "make release VERSION=1.0.0 writes one",
    ),
    "another version in the citation": (
        release.versions,
        [("CITATION.cff", (f"version: {NUMBER}", "version: 0.9.0"))],
        "CITATION.cff says version 0.9.0, pyproject.toml 1.0.0",
    ),
    "another version in the archive's record": (
        release.versions,
        [(".zenodo.json", (f'"version": "{NUMBER}"', '"version": "0.9.0"'))],
        ".zenodo.json says version 0.9.0",
    ),
    "a section that is still open": (
        release.changelog,
        [("CHANGELOG.md", (f"## {NUMBER} ({DAY})", f"## Unreleased\n\n## {NUMBER} ({DAY})"))],
        "still has a section 'Unreleased'",
    ),
    "another day in the changelog": (
        release.changelog,
        [("CHANGELOG.md", (DAY, "2026-11-01"))],
        f"should with '## {NUMBER} \\({DAY}\\)'",
    ),
    "half of a licence": (
        release.licences,
        [("LICENSE-CC-BY-4.0", ("Section 6 -- Term and Termination.", ""))],
        "LICENSE-CC-BY-4.0 is not the licence's own text",
    ),
    "a licence with another condition": (
        release.licences,
        [("LICENSE", ("without restriction", "with restrictions"))],
        "LICENSE is not the licence's own text",
    ),
    "a citation against its schema": (
        release.citation,
        [("CITATION.cff", ("cff-version: 1.2.0", "cff-version: 9"))],
        "check_jsonschema .* failed",
    ),
    "an archive's record without a creator": (
        release.citation,
        [(".zenodo.json", ('{"name": "The Compiled Training Step contributors"}', ""))],
        ".zenodo.json has no creators",
    ),
    "two titles": (
        release.citation,
        [(".zenodo.json", ('"title": "The Compiled', '"title": "A Compiled'))],
        "differ in the title",
    ),
    "a DOI that is none": (
        release.citation,
        [
            ("CITATION.cff", ("# doi: stands", "doi: pending\n# stands")),
            (".zenodo.json", ('"open"', '"open", "doi": "pending"')),
        ],
        "check_jsonschema .* failed",
    ),
    "no place for a DOI": (
        release.citation,
        [("CITATION.cff", ("# doi: stands", "# stands"))],
        "neither a DOI nor the line '# doi: '",
    ),
    "another torch": (
        release.notebooks,
        [("requirements.txt", ("torch==", "torch==9."))],
        f"make execute ONLY={NAME}",
    ),
    "code that did not run": (
        release.notebooks,
        [(f"notebooks/{NAME}.ipynb", ("def scaled(x, factor=2)", "def scaled(x, factor=3)"))],
        "has changed since its outputs were stored: make execute",
    ),
    "a setup cell that installs what moves": (
        release.notebooks,
        [(f"notebooks/{NAME}.ipynb", (f"/archive/refs/tags/v{NUMBER}.zip", "/archive/main.zip"))],
        "does not install refs/tags/v1.0.0: make release VERSION=1.0.0 writes it",
    ),
    "a paper without its need": (
        release.paper,
        [("paper.md", ("bibliography: paper.bib\n", ""))],
        "the head of paper.md has no bibliography",
    ),
    "a number that moved on": (
        release.paper,
        [("paper.md", ("exercises, from", "tasks, from"))],
        r"does not say '\d+ exercises, from'",
    ),
    "a citation of nothing": (
        release.paper,
        [("paper.md", ("@radford2019gpt2", "@nobody2019nothing"))],
        "nobody2019nothing, radford2019gpt2",
    ),
    "a reference of another year": (
        release.paper,
        [("paper.bib", ("year = {2019}", "year = {2018}"))],
        "in another form than book/references.bib",
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_release_stops_and_says_what_is_missing(copy, trouble):
    check, edits, message = TROUBLES[trouble]
    for name, edit in edits:
        rewritten(copy / name, edit)
    with pytest.raises(release.Missing, match=message):
        check(copy)


@pytest.mark.parametrize(("count", "fits"), [(100, False), (800, True), (2000, False)])
def test_the_papers_length_has_bounds(copy, count, fits, monkeypatch):
    head = (copy / "paper.md").read_text("utf-8").split("---\n")[1]
    (copy / "paper.md").write_text(f"---\n{head}---\n" + "word " * count)
    (copy / "paper.bib").write_text("")
    monkeypatch.setattr(release, "counts", lambda root: {})
    if fits:
        release.paper(copy)
    else:
        with pytest.raises(release.Missing, match=f"paper.md has {count} words: 250 to 1750"):
            release.paper(copy)


@pytest.fixture
def committed(tmp_path):
    def git(*words):
        who = ("-c", "user.name=A reader", "-c", "user.email=reader@example.org")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "a.txt").write_text("a")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    return tmp_path


def test_what_is_not_committed_is_named_first(committed):
    release.clean_tree(committed)
    (committed / "b.txt").write_text("b")
    with pytest.raises(release.Missing, match=r"1 files are not as they were committed, b\.txt first"):
        release.clean_tree(committed)


def test_what_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(release.Missing, match="git status --porcelain failed"):
        release.clean_tree(tmp_path)


@pytest.fixture
def site(tmp_path):
    """``site(body)``: a built site of two pages, the first with this body."""

    def build(body):
        pages = tmp_path / "_build/html/book"
        pages.mkdir(parents=True, exist_ok=True)
        (pages.parent / "index.html").write_text(f"<p>{body}</p>")
        (pages / "other page.html").write_text('<h2 id="here">Here</h2>')
        return tmp_path

    return build


@pytest.mark.parametrize(
    "address", ["https://example.org/x", "book/other%20page.html#here", "book/other%20page.html?q=1", "#", "data:,x"]
)
def test_a_link_that_arrives_passes(site, address):
    release.links(site(f'<a class="x" href="{address}">x</a>'))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("book/nowhere.html", r"index\.html links to book/nowhere\.html, and no such file"),
        ("book/other%20page.html#there", "and that page has no such place"),
        ("#there", "index.html links to #there, and that page has no such place"),
    ],
)
def test_a_link_that_leads_nowhere_is_named(site, address, message):
    with pytest.raises(release.Missing, match=message):
        release.links(site(f'<a class="x" href="{address}">x</a>'))


def test_a_site_that_is_not_built_is_asked_for(tmp_path):
    with pytest.raises(release.Missing, match="make book"):
        release.links(tmp_path)


def test_the_first_thing_missing_ends_it(copy, monkeypatch, capsys):
    def never(root):
        """what comes after"""
        pytest.fail("it went on")

    rewritten(copy / "CITATION.cff", (f"version: {NUMBER}", "version: 0.9.0"))
    monkeypatch.setattr(release, "CHECKS", (release.licences, release.versions, never))
    assert release.main([], copy) == 1
    shown = capsys.readouterr()
    assert shown.out == "✓ the licences are whole\n" and "CITATION.cff says version 0.9.0" in shown.err
    monkeypatch.setattr(release, "CHECKS", (release.licences,))
    assert release.main([], copy) == 0
    assert f"git tag v{NUMBER}" in capsys.readouterr().out


def test_every_check_says_what_it_is_about():
    assert all(check.__doc__ and "\n" not in check.__doc__ for check in release.CHECKS)


MODEL = """import torch

def make():
    return torch.nn.Linear(8, 4), torch.randn(2, 8)
"""


@pytest.mark.slow
def test_the_packages_work_in_an_empty_environment_and_find_their_recordings(tmp_path):
    """From an sdist, so that nothing stands in the wheel that is not in the sources which are released."""
    python = release.install(ROOT, tmp_path)
    with_torch = release.alone(PYTHONPATH=sysconfig.get_path("purelib"))

    def said(*command, **more):
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=600, **more)
        return run.stdout.strip()

    assert "compile-lab record" in said(python.with_name("compile-lab"), "--help", env=release.alone())
    loads = "from compile_lab import recordings as r; print(r.folder().name, r.load('machine').provenance.device)"
    assert said(python, "-c", loads, env=with_torch) == "recorded NVIDIA H200"
    report = "import compile_lab.report as r; print(r.__file__)"
    assert Path(said(python, "-c", report, env=with_torch)).is_relative_to(tmp_path)
    (tmp_path / "mine.py").write_text(MODEL)
    said(python.with_name("compile-lab"), "report", "mine.py:make", env=with_torch)
    assert "<h1>Linear of mine.py<" in (tmp_path / "report-mine-make.html").read_text("utf-8")
    answers = "from chapters.exercises import check; print(check('08.3', 3), check('14.2', None))"
    assert said(python, "-c", answers, env=with_torch).startswith("✓ 08.3: right. ○ 14.2: no answer yet")
    licences = {path.name for path in tmp_path.glob("env/lib/*/site-packages/*.dist-info/licenses/*")}
    assert licences == set(release.LICENCES)
