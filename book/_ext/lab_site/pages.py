"""What the pages get beyond Jupyter Book: cell numbers, no script twice, a start page, and a rebuild when the site's
own styles, scripts or templates change."""

import re
from html import escape
from pathlib import Path
from urllib.parse import quote, urlencode

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

SHAPES = ("book/site_static", "book/_templates", "book/_ext", "book/images")
REPAIRS = {
    '<div role="list" class="citation-list">': '<div class="citation-list">',
    '<summary aria-label="Toggle hidden content">': "<summary>",
}
OF_SOME = {"cards.js": "lab-search-cards", "stages.js": "lab-stages"}
"""Scripts that few pages need, and what stands in a page that does."""
OTHER = ("_static", "_sources", "es")
"""Folders of a site whose HTML is no page of it, or one in Spanish."""
FORM = "cell.yml"
"""In ``.github/ISSUE_TEMPLATE``: its fields have the names that a link fills in."""
START = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<meta http-equiv="refresh" content="0; url={page}">
</head>
<body><main><h1>{title}</h1><p><a href="{page}">Open the book</a></p></main></body>
</html>
"""


def html(text: str) -> nodes.raw:
    return nodes.raw(text=text, format="html")


def report(docname: str, number: int, repository: str) -> str:
    """A link that opens the form "This cell differs here" about one cell, begun for the reader."""
    chapter = docname.rpartition("/")[2]
    fields = {"template": FORM, "title": f"{chapter}, cell {number}: ", "chapter": chapter, "cell": str(number)}
    address = escape(f"{repository}/issues/new?{urlencode(fields, quote_via=quote)}")
    return f'<a class="lab-report" href="{address}" aria-label="report cell {number}">report</a>'


class CellNumbers(SphinxPostTransform):
    """Number each code cell as its outputs do ("cell 3, line 5"): by the execution count of a fresh run."""

    default_priority = 300  # after myst-nb has folded the hidden inputs, which expects the input to be the first child
    formats = ("html",)

    def run(self, **kwargs):
        cells = (box for box in self.document.findall(nodes.container) if box.get("nb_element") == "cell_code")
        for position, cell in enumerate(list(cells), start=1):
            number = cell.get("exec_count") or position
            link = f'<a class="lab-cell-number" id="cell-{number}" href="#cell-{number}">cell {number}</a>'
            repository = self.config.html_theme_options["repository_url"]
            cell.insert(0, html(link + report(self.env.docname, number, repository)))
            cell["number"] = number


UNUSED = {"design-tabs.js": r"\bsd-tab-set\b", "togglebutton.js": r'class="[^"]*\b(?:toggle|dropdown)\b'}
"""Scripts of sphinx-design and sphinx-togglebutton, and what a page has that needs them."""


def add_scripts(app, pagename, templatename, context, doctree):
    """The scripts that this page needs and others do not, after ``lab.js``."""
    needed = [script for script, mark in OF_SOME.items() if mark in context.get("body", "")]
    for script in [*needed, "search.js"] if pagename == "search" else needed:
        app.add_js_file(script, loading_method="defer", priority=900)


def first_script(app, pagename, templatename, context, doctree):
    """``storage.js`` before the theme's own script, which asks for ``localStorage`` ahead of any style."""
    script = f'<script src="{context["pathto"]("_static/storage.js", 1)}"></script>'
    context["metatags"] = f"{context.get('metatags', '')}\n{script}"


def tidy(app, pagename, templatename, context, doctree):
    """Repairs. Sphinx can emit one inline script several times: the second ``const`` is an error in the browser.
    What extensions put on every page stays on those that have something for it.
    For screen readers: a bibliography is no list (its entries are no items), and a fold is named by its own text."""
    seen, kept, page = set(), [], context.get("body", "")
    for script in context.get("script_files", []):
        body = getattr(script, "attributes", {}).get("body")
        mark = UNUSED.get(str(getattr(script, "filename", "") or "").rpartition("/")[2])
        if mark and not re.search(mark, page):
            continue
        if body is None or body not in seen:
            kept.append(script)
        seen.add(body)
    context["script_files"] = kept
    for found, better in REPAIRS.items():
        context["body"] = context.get("body", "").replace(found, better)


def page_files(site: Path) -> list[Path]:
    """The pages of a built site in its own language."""
    paths = ((path, path.relative_to(site).parts[0]) for path in sorted(site.rglob("*.html")))
    return [path for path, folder in paths if folder not in OTHER]


def outdated(app, env, *_):
    """All pages, if something that shapes them all is newer than the last build; Sphinx watches only the texts."""
    last = Path(app.outdir) / "index.html"
    shapes = [path for folder in SHAPES for path in (Path(app.srcdir) / folder).rglob("*.*")]
    if last.exists() and max(path.stat().st_mtime for path in shapes) < last.stat().st_mtime:
        return []
    return sorted(env.found_docs)


def start_page(app, error):
    """``index.html`` leads to the landing page. (Jupyter Book's own has neither title nor language.)"""
    if not error and app.builder.format == "html":
        text = START.format(title=escape(app.config.html_title), page=f"{app.config.root_doc}.html")
        (Path(app.outdir) / "index.html").write_text(text, "utf-8")


def setup(app):
    app.add_post_transform(CellNumbers)
    app.connect("env-get-outdated", outdated)
    app.connect("html-page-context", add_scripts)
    app.connect("html-page-context", first_script)
    app.connect("html-page-context", tidy, priority=900)
    app.connect("build-finished", start_page)
