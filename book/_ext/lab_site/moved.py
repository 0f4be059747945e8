"""Pages at old addresses: a chapter that got another number leads its old links to where it stands now.

Each is a page of its own with one link, written when the site is finished, so that no search finds it.
"""

from html import escape
from pathlib import Path

MOVED = {
    "notebooks/16_return_on_investment": "notebooks/19_return_on_investment",
    "notebooks/17_inference": "notebooks/21_inference",
    "notebooks/18_load_bearing": "notebooks/22_attention_and_passes",
    "notebooks/19_capstone": "notebooks/24_capstone",
    "notebooks/21_where_to_compile": "notebooks/18_where_to_compile",
    "notebooks/22_experts": "notebooks/16_experts",
    "notebooks/23_long_sequences": "notebooks/17_long_sequences",
}
"""Where a page of an earlier edition stands now, both as documents."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{title}</title>
<link rel="canonical" href="{page}">
<meta http-equiv="refresh" content="0; url={page}">
</head>
<body><main><h1>{title}</h1><p>This chapter has another number now: <a href="{page}">{title}</a></p></main></body>
</html>
"""


def leads_to(old: str, new: str, title: str) -> str:
    """The page at an old address. Both are documents; the link goes from one's folder to the other.

    >>> leads_to("notebooks/19_capstone", "notebooks/24_capstone", "24 Capstone").count('href="24_capstone.html"')
    2
    """
    up = "../" * old.count("/")
    page = f"{new.rpartition('/')[2]}.html" if old.rpartition("/")[0] == new.rpartition("/")[0] else f"{up}{new}.html"
    return PAGE.format(title=escape(title), page=page)


def write(app, error):
    """A page for each old address whose chapter is in this book; a chapter that was left out has none."""
    if error or app.builder.format != "html":
        return
    for old, new in MOVED.items():
        if new in app.env.found_docs:
            title = f"{new.rpartition('/')[2][:2]} {app.env.titles[new].astext()}"
            (Path(app.outdir) / f"{old}.html").write_text(leads_to(old, new, title), "utf-8")


def setup(app):
    app.connect("build-finished", write, priority=950)  # after what gives finished pages their numbers and scripts
