"""Third-party files of the site: copied, pinned, from ``book/node_modules`` into ``_static/vendor``."""

import shutil
import sys
from pathlib import Path

from sphinx.errors import ExtensionError

from .fonts import shrink

MODULES = Path("book/node_modules")
FONTS = MODULES / "@fontsource-variable"

# what the site needs -> its name below _static/vendor
FILES = {
    MODULES / "plotly.js-basic-dist-min/plotly-basic.min.js": "plotly-basic.min.js",
    MODULES / "plotly.js-basic-dist-min/LICENSE": "plotly-LICENSE.txt",
    FONTS / "source-sans-3/LICENSE": "source-sans-3-LICENSE.txt",
    FONTS / "jetbrains-mono/LICENSE": "jetbrains-mono-LICENSE.txt",
}
SMALLER = {
    FONTS / "source-sans-3/files/source-sans-3-latin-wght-normal.woff2": "source-sans-3.woff2",
    FONTS / "source-sans-3/files/source-sans-3-latin-wght-italic.woff2": "source-sans-3-italic.woff2",
    FONTS / "jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2": "jetbrains-mono.woff2",
}
BUILD_TOOLS = tuple(
    MODULES / path for path in ("mathjax/es5/node-main.js", "purgecss/bin/purgecss.js", "pyodide/package.json")
)


def node_program() -> str:
    """The node of this environment, or else the machine's."""
    return shutil.which("node", path=str(Path(sys.executable).parent)) or "node"


def require(app):
    missing = [path for path in (*FILES, *SMALLER, *BUILD_TOOLS) if not (Path(app.srcdir) / path).exists()]
    if missing:
        raise ExtensionError(
            f"{missing[0]} is not there: the site's scripts and fonts are not installed. "
            "Run 'make book', which fetches them (pinned in book/package-lock.json) and builds the site."
        )


def copy(app, error):
    if error or app.builder.format != "html":
        return
    bring(app, FILES, shutil.copyfile)
    bring(app, SMALLER, shrink)  # half a code font's weight is ligatures, which code in a book does without


def bring(app, files, write):
    """Write each file that is missing or older than its source."""
    for path, name in files.items():
        source, target = Path(app.srcdir) / path, Path(app.outdir) / "_static/vendor" / name
        if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
            target.parent.mkdir(parents=True, exist_ok=True)
            write(source, target)


def setup(app):
    app.connect("builder-inited", require)
    app.connect("build-finished", copy)
