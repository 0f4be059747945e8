"""The styles of third parties without what no page uses: Bootstrap's are 29 kB on the wire, of which the book needs 8.
Newer versions of the theme have them in its own sheet.

PurgeCSS leaves out each rule whose names are in no page and in no script. What a script puts into a page later is named
in that script.
"""

import subprocess
from pathlib import Path

import sphinx_design
from sphinx.errors import ExtensionError

from . import assets, icons

PURGECSS = assets.MODULES / "purgecss/bin/purgecss.js"
SHEETS = ("styles/bootstrap.css", "styles/pydata-sphinx-theme.css")
BOOTSTRAP = next(name for name in SHEETS if (icons.STATIC / name).exists())
STYLES = {
    icons.STATIC / BOOTSTRAP: BOOTSTRAP,
    Path(sphinx_design.__file__).parent / "static/sphinx-design.min.css": "sphinx-design.min.css",
}


def write(app, error):
    if error or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    for source, name in STYLES.items():  # from the package: what an earlier build left may lack a rule that is used now
        command = [assets.node_program(), app.srcdir / PURGECSS, "--css", source, "--output", static / name]
        asked = subprocess.run(
            [*command, "--content", f"{app.outdir}/**/*.html", f"{static}/**/*.js"], capture_output=True, text=True
        )
        if asked.returncode:
            raise ExtensionError(f"PurgeCSS could not make {name} smaller: {asked.stderr}")


def setup(app):
    app.connect("build-finished", write, priority=950)  # after the policy, which moves scripts into files
