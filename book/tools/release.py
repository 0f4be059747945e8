"""Is the book ready to be released? Everything is checked in order, and the first thing missing ends it.

python book/tools/release.py          check; `make release` builds the site before
python book/tools/release.py 1.0.0    write this version into every place, and its tag into the notebooks' setup cells
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import repository
import yaml
from pybtex.database import parse_file
from sources import sources

ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"\d+\.\d+\.\d+")
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
UNRELEASED = "Unreleased"
DOI = re.compile(r"10\.\d{4,9}/\S+")
DOI_PLACE = re.compile(r"^# doi: ", re.MULTILINE)
LICENCES = {"LICENSE": "fe2a9817987f862e", "LICENSE-CC-BY-4.0": "0016afe1672d88e2"}
"""Digests of the words of each licence as its authors publish it."""
ZENODO_FIELDS = ("title", "upload_type", "version", "description", "creators", "license", "keywords", "access_right")
PAPER_FIELDS = ("title", "tags", "authors", "affiliations", "date", "bibliography")
PAPER_WORDS = range(250, 1751)
SPACE = r"\s+"
ADDRESS = re.compile(r'\s(?:href|src)="([^"]+)"')
PLACE = re.compile(r'\s(?:id|name)="([^"]+)"')


class Missing(Exception):
    """What a release still lacks, with the way out."""


def program(*command: str | Path, **options: object) -> str:
    """Run a program and return its output. Raises Missing with the end of what it said if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        words = " ".join(map(str, command))
        raise Missing(f"{words} failed: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


def citation_of(root: Path) -> dict:
    return yaml.safe_load((root / "CITATION.cff").read_text("utf-8"))


def deposit_of(root: Path) -> dict:
    return json.loads((root / ".zenodo.json").read_text("utf-8"))


# ---- the version, written ------------------------------------------------------------------------------------------


def write_version(root: Path, number: str, day: str) -> list[Path]:
    """Carry the version into every place, with its `day` (YYYY-MM-DD), its tag into the setup cells, and the counts.

    Returns the files that changed. Raises ValueError, and changes nothing, for what is no version.
    """
    if not NUMBER.fullmatch(number):
        raise ValueError(
            f"{number!r} is no version of a release: give three numbers, as in 1.0.0. Nothing was changed."
        )
    places = {
        "pyproject.toml": {r'(?m)^version = ".*"$': f'version = "{number}"'},
        "CITATION.cff": {
            r"(?m)^version: .*$": f"version: {number}",
            r"(?m)^date-released: .*$": f'date-released: "{day}"',
        },
        ".zenodo.json": {r'"version": ".*?"': f'"version": "{number}"'},
        "CHANGELOG.md": {rf"(?m)^## {UNRELEASED}$": f"## {number} ({day})"},
    }
    changed = []
    for name, edits in places.items():
        before = text = (root / name).read_text("utf-8")
        for pattern, line in edits.items():
            text = re.sub(pattern, line, text, count=1)
        if text != before:
            (root / name).write_text(text, "utf-8")
            changed.append(root / name)
    changed += [root / "paper.md"] if write_counts(root) else []
    moved = repository.move(root, repository.current(root))  # after pyproject.toml, which it reads
    return list(dict.fromkeys([*changed, *moved]))


def write_counts(root: Path) -> bool:
    """Carry what the notebooks come to into paper.md. Returns whether that changed it."""
    before = text = (root / "paper.md").read_text("utf-8")
    for phrase, count in counts(root).items():
        text = re.sub(rf"\d+(?=\s+{phrase.replace(' ', SPACE)}\b)", str(count), text)
    (root / "paper.md").write_text(text, "utf-8")
    return text != before


# ---- what is checked -----------------------------------------------------------------------------------------------


def clean_tree(root: Path) -> None:
    """everything is committed"""
    if different := program("git", "status", "--porcelain", cwd=root).splitlines():
        first = different[0].split(maxsplit=1)[1]
        raise Missing(f"{len(different)} files are not as they were committed, {first} first: commit or remove them")


def versions(root: Path) -> None:
    """one version everywhere"""
    number = repository.version(root)
    if not NUMBER.fullmatch(number):
        raise Missing(f"pyproject.toml says {number}, which is no release: make release VERSION=1.0.0 writes one")
    for place, stated in {"CITATION.cff": citation_of(root), ".zenodo.json": deposit_of(root)}.items():
        if str(stated.get("version")) != number:
            remedy = f"make release VERSION={number} writes it everywhere"
            raise Missing(f"{place} says version {stated.get('version')}, pyproject.toml {number}: {remedy}")


def changelog(root: Path) -> None:
    """the changelog has this version, with its day"""
    number, day = repository.version(root), citation_of(root)["date-released"]
    sections = SECTION.findall((root / "CHANGELOG.md").read_text("utf-8"))
    if UNRELEASED in sections:
        raise Missing(f"CHANGELOG.md still has a section '{UNRELEASED}': what stands in it belongs to {number}")
    if not sections or sections[0] != f"{number} ({day})":
        first = f"begins with '{sections[0]}'" if sections else "has no section"
        raise Missing(f"CHANGELOG.md {first}, and should with '## {number} ({day})', the day in CITATION.cff")
    date.fromisoformat(str(day))


def licences(root: Path) -> None:
    """the licences are whole"""
    for name, digest in LICENCES.items():
        text = (root / name).read_text("utf-8") if (root / name).is_file() else ""
        if words_digest(text[max(0, text.find("Permission is hereby granted")) :]) != digest:
            raise Missing(f"{name} is not the licence's own text, word for word: take it from the licence's authors")


def words_digest(text: str) -> str:
    """A digest of a text's words, however its lines are broken and its quotes are drawn."""
    return hashlib.sha256(" ".join(text.translate({0x201C: '"', 0x201D: '"'}).split()).encode()).hexdigest()[:16]


def citation(root: Path) -> None:
    """the citation is valid, and the archive's record agrees with it"""
    schema = ("--builtin-schema", "vendor.citation-file-format")
    program(sys.executable, "-m", "check_jsonschema", *schema, root / "CITATION.cff")
    cited, deposit = citation_of(root), deposit_of(root)
    if absent := [field for field in ZENODO_FIELDS if not deposit.get(field)]:  # its schema is not to be had offline
        raise Missing(f".zenodo.json has no {', '.join(absent)}")
    authors = [each.get("name") or f"{each['family-names']}, {each['given-names']}" for each in cited["authors"]]
    pairs = {
        "title": (cited["title"], deposit["title"]),
        "authors": (authors, [each["name"] for each in deposit["creators"]]),
        "licence": (deposit["license"] in cited["license"], True),
        "DOI": (cited.get("doi"), deposit.get("doi")),
    }
    for what, (here, there) in pairs.items():
        if here != there:
            raise Missing(f"CITATION.cff and .zenodo.json differ in the {what}: {here!r} and {there!r}")
    doi = cited.get("doi")
    if doi is None and not DOI_PLACE.search((root / "CITATION.cff").read_text("utf-8")):
        raise Missing("CITATION.cff has neither a DOI nor the line '# doi: ' that says where it will stand")
    if doi is not None and not DOI.fullmatch(doi):
        raise Missing(f"{doi!r} is no DOI: take the archive's, as in 10.5281/zenodo.N, or leave the comment there")


def notebooks(root: Path) -> None:
    """the notebooks' outputs are of the pinned torch and of their code, and Colab installs the tag"""
    pinned = re.search(r"^torch==(\S+)", (root / "requirements.txt").read_text("utf-8"), re.MULTILINE)[1]
    setup = repository.setup_cell(repository.current(root), repository.archive(root))
    for path in sorted(root.glob("notebooks/*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        stored = notebook.metadata.get("compile_lab", {})
        again = f"make execute ONLY={path.stem}"
        if (torch := stored.get("torch", "none").partition("+")[0]) != pinned:
            raise Missing(f"{path.name} was run with torch {torch}, and {pinned} is pinned: {again}")
        if [cell.source for cell in notebook.cells if "setup" in cell.metadata.get("tags", [])] != [setup]:
            remedy = f"make release VERSION={repository.version(root)} writes it"
            raise Missing(f"the setup cell of {path.name} does not install {repository.archive(root)}: {remedy}")
        if stored["sources"] != sources(notebook):
            raise Missing(f"{path.name} has changed since its outputs were stored: {again}")


def counts(root: Path) -> dict[str, int]:
    """What paper.md counts, by the words that follow each number: as the notebooks have it."""
    cells = [cell for path in root.glob("notebooks/*.ipynb") for cell in nbformat.read(path, as_version=4).cells]
    tags = [tag for cell in cells for tag in cell.metadata.get("tags", [])]
    shown = [json.dumps(cell.outputs) for cell in cells if cell.cell_type == "code"]
    minutes = [re.search(r"^\*Time: about (?:(\d+) minutes|an hour)", cell.source, re.MULTILINE) for cell in cells]
    return {
        "executable notebooks": len([*root.glob("notebooks/*.ipynb")]),
        "hours by their own estimates": round(sum(int(found[1] or 60) for found in minutes if found) / 60),
        "places the reader commits": sum("lab-prediction" in each for each in shown),
        "of these questions": sum('\\"guessed\\":' in each for each in shown),
        "statements that are commonly taught": sum(tag.startswith("claim-") for tag in tags),
        "exercises, from": sum(tag.startswith("exercise-") for tag in tags),
        "of them need nothing": tags.count("in-page"),
    }


def spanish(root: Path) -> None:
    """every sentence of the site is there in Spanish"""
    program(sys.executable, root / "book/tools/spanish.py")


def paper(root: Path) -> None:
    """the paper has its form, its length, its references, and the notebooks' numbers"""
    head, text = re.fullmatch(r"---\n(.*?)\n---\n(.*)", (root / "paper.md").read_text("utf-8"), re.DOTALL).groups()
    if absent := [field for field in PAPER_FIELDS if not yaml.safe_load(head).get(field)]:
        raise Missing(f"the head of paper.md has no {', '.join(absent)}")
    if (count := len(text.split())) not in PAPER_WORDS:
        raise Missing(f"paper.md has {count} words: {PAPER_WORDS.start} to {PAPER_WORDS.stop - 1} are taken")
    line = " ".join(text.split())
    for words, count in counts(root).items():
        if not re.search(rf"\b{count} {words}", line):
            remedy = f"make release VERSION={repository.version(root)} writes it"
            raise Missing(f"paper.md does not say '{count} {words}', and that is what the notebooks come to: {remedy}")
    kept, book = (parse_file(root / name).entries for name in ("paper.bib", "book/references.bib"))
    cited = set(re.findall(r"(?<![\w.])@([a-z]\w*\d{4}\w*)", text))
    if cited != set(kept):
        names = ", ".join(sorted(cited ^ set(kept)))
        raise Missing(f"paper.md cites what paper.bib does not have, or the other way round: {names}")
    if other := sorted(key for key in kept if key not in book or kept[key] != book[key]):
        raise Missing(f"paper.bib has {other[0]} in another form than book/references.bib: copy it from there")


def links(root: Path) -> None:
    """every link inside the built site arrives"""
    site = root / "_build/html"
    if not (site / "index.html").is_file():
        raise Missing("the site is not built: make book")
    found = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.relative_to(site).parts)
    pages = {path: path.read_text("utf-8") for path in found}
    places = {path: set(PLACE.findall(text)) for path, text in pages.items()}
    for page, text in pages.items():
        for address in dict.fromkeys(ADDRESS.findall(text)):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            here = f"{page.relative_to(site)} links to {address}"
            if not target.is_file():
                raise Missing(f"{here}, and no such file was built")
            place = unquote(parts.fragment)
            if place and target in places and place not in places[target]:
                raise Missing(f"{here}, and that page has no such place")


def packages(root: Path) -> None:
    """sdist and wheel build, and work in an empty environment"""
    with tempfile.TemporaryDirectory() as folder:
        python = install(root, Path(folder))
        program(python.with_name("compile-lab"), "--help", cwd=folder, env=alone())
        with_torch = alone(PYTHONPATH=sysconfig.get_path("purelib"))
        program(python, "-c", "from compile_lab.report import report", cwd=folder, env=with_torch)


def alone(**more: str) -> dict[str, str]:
    """An environment's variables without those that let Python find a checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | more


def install(root: Path, folder: Path) -> Path:
    """Build an sdist, from that a wheel, and install it alone into an empty environment in `folder`: its Python.

    Nothing is fetched: an environment of this kind has the packages of the book, and none that they need.
    """
    hatch = (sys.executable, "-m", "hatchling", "build", "-d", folder)
    program(*hatch, "-t", "sdist", cwd=root)
    (packed,) = folder.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder / "sources", filter="data")
    (unpacked,) = (folder / "sources").iterdir()
    program(*hatch, "-t", "wheel", cwd=unpacked)
    (wheel,) = folder.glob("*.whl")
    program(sys.executable, "-m", "venv", "--without-pip", folder / "env")
    python = folder / "env" / Path(sys.executable).parent.name / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps")
    program(*pip, wheel, env=alone())
    return python


CHECKS: tuple[Callable[[Path], None], ...] = (
    clean_tree,
    versions,
    changelog,
    licences,
    citation,
    notebooks,
    paper,
    spanish,
    links,
    packages,
)


def main(arguments: list[str], root: Path = ROOT) -> int:
    """0 if nothing is missing, or a version was written; 1 with the first thing that is missing, or for no version."""
    try:
        if arguments:
            for path in write_version(root, arguments[0], datetime.now(UTC).date().isoformat()):
                print(f"changed {path.relative_to(root)}")
            print("Commit this; then `make release` checks the rest.")
            return 0
        for check in CHECKS:
            check(root)
            print(f"✓ {check.__doc__}")
    except (Missing, ValueError) as trouble:
        print(trouble, file=sys.stderr)
        return 1
    number = repository.version(root)
    print(f"Nothing is missing. Now: git tag v{number} && git push origin v{number}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
