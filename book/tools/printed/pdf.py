"""The PDF: all articles printed at once, so that links between chapters live, with a title, contents and bookmarks."""

import io
from html import escape
from pathlib import Path

import pikepdf

from printed.articles import Book, PrintError
from printed.browser import Press

PAPER = Path(__file__).with_name("paper.css")
SHEETS = ("pygments.css", "fonts.css", "lab.css", "outputs.css", "marks.css")
"""The site's own styles, from its folder ``_static``."""
SCALE = 0.8
"""The page is laid out as if A4 were wider: 822 CSS pixels between its margins, so that wide figures have room."""
UNKNOWN = "0000"
"""Takes the room of a page number, unseen, until the pages are known: no line may move then."""
FOOTER = """<div style="width: 100%; padding: 0 18mm; font: 8pt sans-serif; color: #56616f; display: flex;
justify-content: space-between"><span>{title}</span><span class="pageNumber"></span></div>"""


def sheet_links() -> str:
    return "".join(f'<link rel="stylesheet" href="_static/{name}">' for name in SHEETS)


def front(book: Book, edition: str) -> str:
    """The title page and the contents, as HTML; ``data-of`` names what a page number belongs to."""
    words = book.words
    lines = []

    def line(kind: str, place: str, title: str) -> None:
        number = f'<span class="printed-number" data-of="{place}">{UNKNOWN}</span>'
        lines.append(f'<li class="{kind}"><a href="#{place}"><span>{escape(title)}</span>{number}</a></li>')

    for at, (part, articles) in enumerate(book.parts().items()):
        lines.append(f'<li class="printed-part"><a href="#part-{at}"><span>{escape(part)}</span></a></li>')
        for article in articles:
            line("printed-chapter", article.id, article.label)
            for place, title in article.sections():
                line("printed-section", place, title)
    answered = [article for article in book.articles if article.answers]
    if answered:
        lines.append(f'<li class="printed-part"><a href="#answers"><span>{words["answers"]}</span></a></li>')
        for article in answered:
            line("printed-chapter", f"{article.id}-answers", article.label)
    return f"""<header class="printed-title"><h1>{escape(book.title)}</h1><p>{escape(edition)}
<a href="{book.live}/">{book.live.removeprefix("https://")}</a></p><p>{escape(words["licence"])}</p></header>
<nav class="printed-contents"><h1>{escape(words["contents"])}</h1><ol>{"".join(lines)}</ol></nav>"""


def page_html(book: Book, body: str, more: str = "") -> str:
    return f"""<!doctype html><html lang="{book.language}" data-theme="light"><head><meta charset="utf-8">
<title>{escape(book.title)}</title>{sheet_links()}<style>{PAPER.read_text("utf-8")}{more}</style></head>
<body class="printed"><main>{body}</main></body></html>"""


def whole(book: Book, edition: str) -> str:
    """The book as one page of HTML."""
    bodies = [front(book, edition)]
    for at, (part, articles) in enumerate(book.parts().items()):
        bodies.append(f'<section class="printed-divider" id="part-{at}"><p>{escape(part)}</p></section>')
        bodies += [str(article.body) for article in articles]
    answers = [str(article.answers) for article in book.articles if article.answers]
    if answers:
        title = escape(book.words["answers"])
        bodies += [f'<section class="printed-divider" id="answers"><p>{title}</p></section>', *answers]
    return page_html(book, "".join(bodies))


def bind(book: Book, press: Press, edition: str, author: str) -> bytes:
    """The PDF. Raises PrintError for a heading that stands on no page, and for a link that leads nowhere."""
    printed = press.pdf(whole(book, edition), FOOTER.format(title=escape(book.title)), SCALE)
    with pikepdf.open(io.BytesIO(printed)) as bound:
        pages = places(bound)
        number(book, press, bound, front(book, edition), pages)
        bookmark(book, bound, pages)
        if wrong := lost_links(bound, pages):
            raise PrintError(f"Links of the PDF that lead nowhere: {', '.join(wrong[:5])}")
        bound.docinfo["/Title"], bound.docinfo["/Author"] = book.title, author
        bound.Root.PageMode = pikepdf.Name.UseOutlines
        made = io.BytesIO()
        bound.save(made, object_stream_mode=pikepdf.ObjectStreamMode.generate, compress_streams=True)
    return made.getvalue()


def places(bound: pikepdf.Pdf) -> dict[str, int]:
    """The page, from 0, of each id that a link leads to: Chromium names those, and only those."""
    numbers = {page.objgen: at for at, page in enumerate(bound.pages)}
    named = bound.Root.get("/Dests", {})
    return {str(name).removeprefix("/"): numbers[place[0].objgen] for name, place in named.items()}


def lost_links(bound: pikepdf.Pdf, pages: dict[str, int]) -> list[str]:
    """The named places that links lead to and that are not there."""
    sought = {
        str(link["/Dest"]).removeprefix("/")
        for page in bound.pages
        for link in page.get("/Annots", [])
        if "/Dest" in link and not isinstance(link["/Dest"], pikepdf.Array)
    }
    return sorted(sought - set(pages))


def number(book: Book, press: Press, bound: pikepdf.Pdf, front_html: str, pages: dict[str, int]) -> None:
    """Page numbers into the contents: the same pages printed again with nothing but them, and laid over."""
    for place, page in pages.items():
        front_html = front_html.replace(f'data-of="{place}">{UNKNOWN}</span>', f">{page + 1}</span>")
    only = "body.printed { visibility: hidden; } .printed-number { visibility: visible; }"
    with pikepdf.open(io.BytesIO(press.pdf(page_html(book, front_html, only), "", SCALE))) as numbers:
        for at, page in enumerate(numbers.pages):
            bound.pages[at].add_overlay(page)


def bookmark(book: Book, bound: pikepdf.Pdf, pages: dict[str, int]) -> None:
    """Parts, chapters and sections as the reader's sidebar shows them."""

    def entry(title: str, place: str) -> pikepdf.OutlineItem:
        if place not in pages:
            raise PrintError(f"“{title}” ({place}) stands on no page: the print is incomplete. Run the command again")
        return pikepdf.OutlineItem(title, pages[place])

    with bound.open_outline() as outline:
        for at, (part, articles) in enumerate(book.parts().items()):
            outer = entry(part, f"part-{at}")
            for article in articles:
                chapter = entry(article.label, article.id)
                chapter.is_closed = True
                chapter.children.extend(entry(title, place) for place, title in article.sections())
                outer.children.append(chapter)
            outline.root.append(outer)
        answered = [article for article in book.articles if article.answers]
        if answered:
            outer = entry(book.words["answers"], "answers")
            outer.children.extend(entry(article.label, f"{article.id}-answers") for article in answered)
            outline.root.append(outer)
