"""The theme's icons at a hundredth of their weight.

The theme ships every Font Awesome icon twice: as fonts (300 kB) and as a script (540 kB on the wire) that redraws the
same icons. The pages show about twenty. ``book/_templates/static/webpack-macros.html`` leaves the script out; this part
writes fonts that hold only the glyphs which the built pages and the theme's styles name. Their names stand in a sheet
of their own, or in newer versions of the theme in its own.
"""

import re
import shutil
from pathlib import Path

import pydata_sphinx_theme

from . import policy
from .fonts import shrink

STATIC = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static"
NAMES = next(STATIC.glob("vendor/fontawesome/*/css/all.min.css"), STATIC / "styles/pydata-sphinx-theme.css")
NAMED = re.compile(r'([^{}]+)\{(?:content|--fa):"\\([0-9a-f]+)"\}')
STYLES = ("styles/pydata-sphinx-theme.css", "styles/sphinx-book-theme.css", "lab.css", "outputs.css")
FACES = {"solid": ("fa-solid-900", 900), "brands": ("fa-brands-400", 400)}
NOTICE = "/* Icons: Font Awesome Free (fontawesome.com), fonts under the SIL Open Font License 1.1; a subset. */\n"


def glyphs(stylesheet: str) -> dict[str, int]:
    r"""The code point of each icon class in Font Awesome's own stylesheet: ``fa-sun`` -> 0xF185.

    >>> glyphs(r'.fa-sun:before{content:"\f185"}') == glyphs(r'.fa-sun{--fa:"\f185"}') == {"fa-sun": 0xF185}
    True
    """
    table = {}
    for selectors, code in NAMED.findall(stylesheet):
        for name in re.findall(r"\.(fa-[a-z0-9-]+)(?=[:,]|$)", selectors):
            table[name] = int(code, 16)
    return table


def class_names(page: str) -> set[str]:
    return {name for value in re.findall(r'class="([^"]*\bfa-[^"]*)"', page) for name in value.split()}


def code_points(style: str) -> set[int]:
    """Icons that a stylesheet draws itself: private-use characters, written out or escaped. A name draws nothing."""
    escaped = {int(code, 16) for code in re.findall(r"(?<!--fa:\")\\([ef][0-9a-f]{3})\b", style)}
    return escaped | {ord(char) for char in style if 0xE000 <= ord(char) <= 0xF8FF}


def stylesheet(used: dict[str, int]) -> str:
    rules = [NOTICE + ":root{--fa-font-solid:normal 900 1em/1 lab-icons;--fa-font-brands:normal 400 1em/1 lab-icons}"]
    for face, (_, weight) in FACES.items():
        rules.append(
            f"@font-face{{font-family:lab-icons;font-weight:{weight};font-display:block;"
            f"src:url(icons-{face}.woff2) format('woff2')}}"
        )
    rules.append(
        ".fa,.fas,.fa-solid,.far,.fa-regular,.fab,.fa-brands{font-family:lab-icons;font-weight:900;font-style:normal;"
        "line-height:1;display:inline-block;text-rendering:auto;-webkit-font-smoothing:antialiased}.fab,.fa-brands{font-weight:400}"
        ".fa-lg{font-size:1.25em;line-height:.05em;vertical-align:-.075em}"
    )
    rules += [f'.{name}::before{{content:"\\{code:x}"}}' for name, code in sorted(used.items())]
    return "\n".join(rules) + "\n"


def write(app, error):
    if error or app.builder.format != "html":
        return
    out = Path(app.outdir)
    table = glyphs(NAMES.read_text("utf-8"))
    # In a second build, the scripts of pages that did not change are in files already.
    texts = [*out.rglob("*.html"), *(out / policy.FOLDER).glob("*.js")]
    names = set().union(*(class_names(text.read_text("utf-8")) for text in texts))
    used = {name: table[name] for name in names if name in table}
    wanted = set(used.values()).union(*(code_points((out / "_static" / name).read_text("utf-8")) for name in STYLES))

    vendor = out / "_static/vendor"
    shutil.rmtree(vendor / "fontawesome", ignore_errors=True)
    for script in (out / "_static/scripts").glob("fontawesome.js*"):
        script.unlink()
    if (vendor / "icons.css").exists() and (vendor / "icons.css").read_text("utf-8") == stylesheet(used):
        return
    for face, (name, _) in FACES.items():
        font = next(STATIC.glob(f"vendor/fontawesome/**/{name}.woff2"))
        shrink(font, vendor / f"icons-{face}.woff2", wanted)
    (vendor / "icons.css").write_text(stylesheet(used), "utf-8")


def setup(app):
    app.connect("build-finished", write)
