"""Whose work the site carries besides its own: ``_static/vendor/NOTICES.txt``, the licences whole, out of the packages.

A package without a licence text stops the build. Pyodide's and torch's parts have a notice of their own (``live``).
"""

import importlib.metadata
import json
import re
from pathlib import Path

from sphinx.errors import ExtensionError

from .assets import FONTS, MODULES
from .icons import STATIC

FILE = "_static/vendor/NOTICES.txt"
LICENCE = re.compile(r"\.dist-info/(?:licenses/)?(?:LICEN[CS]E|COPYING)[^/]*$")
DISTRIBUTIONS = {
    "Sphinx": "scripts and styles of every page, and of the search",
    "snowballstemmer": "the search's stemmer",
    "sphinx-book-theme": "styles and scripts of every page",
    "pydata-sphinx-theme": "styles and scripts of every page",
    "sphinx-copybutton": "the button that copies code, with clipboard.js (MIT License, its notice in clipboard.min.js)",
    "sphinx-togglebutton": "what opens and closes folded cells",
    "sphinx-design": "styles, less what no page uses",
    "myst-nb": "styles of cells",
    "Pygments": "colours of code",
}
MODULES_SHOWN = {
    MODULES / "plotly.js-basic-dist-min": "plots that can be hovered",
    MODULES / "mathjax": "the outlines of formulas, drawn while building",
    FONTS / "source-sans-3": "the font of text, less what is not needed",
    FONTS / "jetbrains-mono": "the font of code, less what is not needed",
}
IN_THE_THEME = {
    "Bootstrap": ("scripts/bootstrap.js.LICENSE.txt", "styles and scripts of the theme, under the MIT License"),
    "Font Awesome Free": (
        "vendor/fontawesome/*/LICENSE.txt",
        "scripts/fontawesome.js.LICENSE.txt",
        "the icons, a subset",
    ),
}
RULE = "=" * 100


def entry(name: str, purpose: str, licence: str) -> str:
    """One work: its name and version, what it does here, and its licence. Raises ExtensionError without a text."""
    if not licence.strip():
        raise ExtensionError(f"{name} is carried by the site ({purpose}), and no text of its licence was found")
    return f"{RULE}\n{name}: {purpose}\n{RULE}\n\n{licence.strip()}\n"


def of_distribution(name: str) -> tuple[str, str]:
    """Version and licence of an installed package; "" for a licence that it does not bring."""
    distribution = importlib.metadata.distribution(name)
    texts = [file.read_text(encoding="utf-8") for file in distribution.files or () if LICENCE.search(file.as_posix())]
    return distribution.version, "\n\n".join(texts)


def of_module(folder: Path) -> tuple[str, str]:
    """Version and licence of a package in ``book/node_modules``."""
    texts = [path.read_text("utf-8") for path in sorted(folder.glob("LICENSE*"))]
    return json.loads((folder / "package.json").read_text("utf-8"))["version"], "\n\n".join(texts)


def notices(root: Path) -> str:
    """All of them as one text."""
    parts = ["Whose work this site carries besides its own. Of Python in the page: ../live/NOTICE.txt\n"]
    for name, purpose in DISTRIBUTIONS.items():
        version, licence = of_distribution(name)
        parts.append(entry(f"{name} {version}", purpose, licence))
    for folder, purpose in MODULES_SHOWN.items():
        version, licence = of_module(root / folder)
        parts.append(entry(f"{folder.relative_to(MODULES).as_posix()} {version}", purpose, licence))
    for name, (*patterns, purpose) in IN_THE_THEME.items():
        texts = (path.read_text("utf-8") for pattern in patterns for path in STATIC.glob(pattern))
        parts.append(entry(name, purpose, "\n\n".join(texts)))
    return "\n".join(parts)


def write(app, error):
    if not error and app.builder.format == "html":
        path = Path(app.outdir) / FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(notices(Path(app.srcdir)), "utf-8")


def setup(app):
    app.connect("build-finished", write)
