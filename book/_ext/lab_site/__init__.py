"""The book's own Sphinx extension: everything the site needs that Jupyter Book does not give.

- ``api``: the page of the library, from its docstrings
- ``assets``: third-party scripts and fonts, taken pinned from ``book/node_modules`` and served by the site itself
- ``atlas``: the page of graph breaks, from their recording
- ``bundle``: each chapter and the book as one Markdown file, without solutions, and ``llms.txt``
- ``faults``: the page of known faults, programs that some torch compiles wrong
- ``fonts``: makes a font smaller, for ``assets`` and ``icons``
- ``hangs``: the page of ranks that part ways, from their recording
- ``guesses``: the page of predictions that somebody guessed wrong
- ``icons``: a subset of the theme's icon font, with the glyphs that the pages show and no others
- ``formulas``: mathematics typeset while building
- ``flow``: a chapter's text in a column, code behind marks beside it, notes in the margin, answers behind predictions
- ``folds``: what stands behind the mark of a folded cell
- ``landing``: the landing page, out of what the chapters' cells have stored
- ``live``: Python in the reader's page, for explorers that compute any value; ``schedules``: torch's tables in it
- ``moved``: old addresses of chapters, which lead to where they stand now
- ``notices``: the licences of all that the site carries of others
- ``numbers``: each chapter's number wherever its title stands, and the sections of the open page in the sidebar
- ``pages``: cell numbers, inline scripts once, a start page
- ``paths``: ways into the book, by purpose and by symptom
- ``policy``: no script inside a page, so that the site works under a strict Content-Security-Policy
- ``problems``: worked problems, each with a field for the reader's number
- ``references``: links to the glossary and the bibliography, which every notebook program reads, as Sphinx's own
- ``reports``: the page of one's own model: the reports that are kept, and the survey, from their recording
- ``spanish``: the whole site in Spanish, from the finished pages and its catalogues
- ``status``: the table of what was run when and with which versions
- ``styles``: the styles of third parties without what no page uses
- ``teaching``: the page for instructors: a course in weeks, and where each exercise is judged
- ``verdicts``: the page of claims that the chapters put to the test
"""

from . import (
    api,
    assets,
    atlas,
    bundle,
    faults,
    flow,
    folds,
    formulas,
    guesses,
    hangs,
    icons,
    landing,
    live,
    moved,
    notices,
    numbers,
    pages,
    paths,
    policy,
    problems,
    references,
    reports,
    spanish,
    status,
    styles,
    teaching,
    verdicts,
)


def setup(app):
    for part in (
        api,
        assets,
        atlas,
        bundle,
        faults,
        flow,
        folds,
        formulas,
        guesses,
        hangs,
        landing,
        live,
        moved,
        notices,
        pages,
        paths,
        problems,
        references,
        reports,
        status,
        teaching,
        verdicts,
    ):
        part.setup(app)
    for part in (icons, numbers, policy, styles, spanish):  # on finished pages
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
