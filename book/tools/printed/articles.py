"""The site's pages as a book's articles: nothing that needs a script, answers at the end, links within the book.

Every id is unique in the book, ``p-01_graph_breaks--cell-3``, so that one file may hold all articles, or each its own.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import join, normpath

import yaml
from bs4 import BeautifulSoup, Tag

WORDS = Path(__file__).with_name("words.json")
LEFT_OUT = {"book/index", "book/predictions", "book/guess_then_run", "book/status"}
"""The landing page, and what a browser keeps or what says how fresh the site is: links to them lead to the site."""
SCREEN_ONLY = "script, style, .headerlink, .lab-report, .lab-veil, .lab-try, .lab-switch, .copybtn, .lab-strip"
SCREEN_ONLY += ", tr:has(.lab-more)"
SETUP = ".lab-code:has(> #cell-1)"
"""The code of each notebook's first cell, which finds or installs the packages: the same in all of them."""
REFERS = ("aria-labelledby", "aria-describedby", "aria-controls", "for", "headers")
DROPPED = ("tabindex", "aria-live", "aria-selected", "onclick")
URL = re.compile(r"url\(['\"]?#([^)'\"]+)['\"]?\)")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
LONG_LINES = 36
"""A listing or table with more may be split over pages."""


class PrintError(Exception):
    """Says what is missing and how to get it; the command prints it and ends with status 2."""


@dataclass
class Article:
    """One page of the site. ``body`` and ``answers`` are article elements; there may be no answers."""

    name: str
    title: str
    part: str
    body: Tag
    answers: Tag | None = None

    @property
    def id(self) -> str:
        return f"p-{stem(self.name)}"

    @property
    def label(self) -> str:
        """The title as the contents list it: a chapter's with its number."""
        number = re.match(r"\d+(?=_)", stem(self.name))
        return f"{number[0]} {self.title}" if number else self.title

    def sections(self) -> list[tuple[str, str]]:
        """Id and title of each section, as the contents list them."""
        found = []
        for heading in self.body("h2"):
            section = heading.find_parent("section", id=True)
            if section:
                found.append((str(section["id"]), heading.get_text().strip()))
        return found


@dataclass
class Book:
    """What is bound. ``live`` is the published site's address, ``words`` what the binder itself says, by name."""

    language: str
    title: str
    live: str
    words: dict[str, str]
    articles: list[Article] = field(default_factory=list)

    def parts(self) -> dict[str, list[Article]]:
        found: dict[str, list[Article]] = {}
        for article in self.articles:
            found.setdefault(article.part, []).append(article)
        return found


def stem(name: str) -> str:
    return name.rpartition("/")[2]


def words_of(language: str) -> dict[str, str]:
    """What the binder says in a language. Raises PrintError for one that ``words.json`` does not have."""
    known = json.loads(WORDS.read_text("utf-8"))
    if language not in known:
        raise PrintError(
            f"The pages are in {language!r}; the words that the binder adds are there in {', '.join(known)}. "
            "Add them to book/tools/printed/words.json"
        )
    return known[language]


def all_pages(toc: Path) -> list[tuple[str, str]]:
    """The part and the name of each page of ``_toc.yml``, in order."""
    listed = yaml.safe_load(toc.read_text("utf-8"))
    return [(part.get("caption", ""), page["file"]) for part in listed["parts"] for page in part["chapters"]]


def order(toc: Path) -> list[tuple[str, str]]:
    """The part and the name of each page that is printed, in order."""
    return [(part, name) for part, name in all_pages(toc) if name not in LEFT_OUT]


def page_of(site: Path, name: str) -> BeautifulSoup:
    """A page of the built site. Raises PrintError if it is not there, or only leads on to another."""
    path = site / f"{name}.html"
    if not path.is_file():
        raise PrintError(f"{path} is not there: the book is printed from the built site. Run 'make book' first")
    page = BeautifulSoup(CONTROL.sub("", path.read_text("utf-8")), "html.parser")
    if page.article is None:
        raise PrintError(f"{path} has no article: the site is an old or broken one. Run 'make book' first")
    return page


def read(site: Path, toc: Path, live: str, title: str, pictures: dict[str, list[str | None]]) -> Book:
    """All articles of a built site. ``pictures``: of each page's plots the SVG, in order; None where none was drawn."""
    pages = [(part, name, page_of(site, name)) for part, name in order(toc)]
    language = str(pages[0][2].html.get("lang", "en"))
    book = Book(language, title, live, words_of(language))
    parts = list(dict.fromkeys(part for part, _ in all_pages(toc)))
    captions = [each.get_text().strip() for each in pages[0][2].select(".bd-sidebar-primary .caption-text")]
    said = dict(zip(parts, captions if len(captions) == len(parts) else parts, strict=True))
    for part, name, page in pages:
        book.articles.append(article_of(page, name, said[part], book, pictures.get(name, [])))
    link(book)
    return book


def article_of(page: BeautifulSoup, name: str, part: str, book: Book, pictures: list[str | None]) -> Article:
    body = page.article
    draw(page, body, pictures)
    shown_choices(page, body)
    for gone in body.select(f"{SCREEN_ONLY}, {SETUP}"):
        if not gone.decomposed:
            gone.decompose()
    still(page, body, f"{book.live}/{name}.html", book.words["live"])
    qualify(body, stem(name))
    title = body.h1.get_text().strip()
    answers = taken_out(page, body, stem(name), title, book.words)
    for place in filter(None, (body, answers)):
        unfold(page, place)
        mark_long(place)
    body["id"] = f"p-{stem(name)}"
    return Article(name, title, part, body, answers)


def element(page: BeautifulSoup, kind: str, text: str = "", **attributes: str) -> Tag:
    made = page.new_tag(kind, attrs={name.rstrip("_"): value for name, value in attributes.items()})
    made.string = text
    return made


def draw(page: BeautifulSoup, body: Tag, pictures: list[str | None]) -> None:
    """Each plot's picture in its place. One that could not be drawn leaves its table, opened."""
    plots = body.select(".lab-plot")
    for at, plot in enumerate(plots):
        picture = pictures[at] if at < len(pictures) else None
        if picture is None:
            plot.decompose()
            continue
        plot.clear()
        plot["class"] = ["printed-plot"]
        plot.append(BeautifulSoup(picture, "html.parser"))


def shown_choices(page: BeautifulSoup, body: Tag) -> None:
    """A prediction's choices, which on the site a script offers, as a line."""
    for asked in body.select("script.lab-asked"):
        choices = json.loads(asked.string).get("choices") or []
        if choices:
            line = element(page, "p", " · ".join(map(str, choices)), class_="printed-choices")
            asked.find_parent(class_="lab-prediction").select_one(".lab-question").insert_after(line)


def still(page: BeautifulSoup, body: Tag, address: str, live: str) -> None:
    """An explorer as its stored picture, with a line that says which of how many it is, and where it moves."""
    for explorer in body.select(".lab-explorer"):
        cell = explorer.find_previous(class_="lab-cell-number")
        for controls in explorer.select(".lab-controls"):
            said = re.split(r"(?<=\.)\s", controls.get_text(" ", strip=True), maxsplit=1)[0]
            line = element(page, "p", f"{said} " if said else "", class_="printed-live")
            line.append(element(page, "a", live, href=address + (cell["href"] if cell else "")))
            controls.replace_with(line)


def qualify(body: Tag, page: str) -> None:
    """Ids of this page get its name, and so does what refers to them within it."""
    known = {str(tag["id"]) for tag in body.select("[id]")}

    def full(name: str) -> str:
        return f"p-{page}--{name}"

    for tag in body.find_all(True):
        for name in DROPPED:
            tag.attrs.pop(name, None)
        if tag.get("role") == "doc-biblioentry":  # EPUB 3.3 has it no longer
            del tag["role"]
        for name, value in list(tag.attrs.items()):
            if not isinstance(value, str):
                continue
            if name == "id":
                tag[name] = full(value)
            elif name in ("href", "xlink:href") and value.startswith("#"):
                tag[name] = f"#{full(value[1:])}" if value[1:] in known else f"#p-{page}"
            elif name in REFERS:
                tag[name] = " ".join(full(word) for word in value.split() if word in known)
            elif "url(" in value:
                tag[name] = URL.sub(lambda found: f"url(#{full(found[1])})", value)


def taken_out(page: BeautifulSoup, body: Tag, name: str, title: str, words: dict[str, str]) -> Tag | None:
    """The answers and solutions of an article, out of it, each with a link there and back; None if it asks nothing."""
    answers = element(page, "article", class_="bd-article printed-answers", id=f"p-{name}-answers")
    answers.append(element(page, "h1", words["of_chapter"].format(title=title)))
    found = body.select(".lab-prediction .lab-answer, div.cell[class*=tag_solution-]")
    for at, answer in enumerate(found, 1):
        here, there = f"p-{name}-asked-{at}", f"p-{name}-answer-{at}"
        is_solution = "lab-answer" not in answer["class"]
        asked = answer.find_previous("h3") if is_solution else answer.parent.select_one(".lab-question")
        line = element(page, "p", class_="printed-to-answer", id=here)
        line.append(element(page, "a", words["to_solution" if is_solution else "to_answer"], href=f"#{there}"))
        code = None if is_solution else question_code(answer)
        answer.replace_with(line)
        section = element(page, "section", id=there, class_="printed-answer")
        section.append(element(page, "h3", asked.get_text().strip() if asked else ""))
        section.append(answer)
        if code:
            section.append(code.extract())
        back = element(page, "p", class_="printed-back")
        back.append(element(page, "a", words["back"], href=f"#{here}"))
        section.append(back)
        answers.append(section)
    return answers if found else None


def question_code(answer: Tag) -> Tag | None:
    """The folded code of the cell that asks a question: the answer stands in it, so it goes where that goes."""
    cell = answer.find_parent("div", class_="cell")
    return cell.select_one("details.lab-fold") if cell and len(cell.select(".lab-prediction")) == 1 else None


def unfold(page: BeautifulSoup, place: Tag) -> None:
    """No fold is left: code stands in sight, small; a figure's table goes if the figure is there; the rest is open."""
    for fold in place.select("details"):
        if fold.decomposed:
            continue
        classes = fold.get("class", [])
        figure = fold.find_parent(class_="lab-figure")
        summary = fold.find("summary", recursive=False)
        if figure and not classes and figure.select_one(".printed-plot, .m-body, svg, .lab-drawing"):
            fold.decompose()
            continue
        fold.name = "div"
        fold.attrs.pop("open", None)
        if "lab-fold" in classes:
            fold["class"] = ["printed-code"]
            summary.decompose()
        elif "hide" in classes:
            fold["class"] = ["printed-solution"]
            summary.decompose()
        else:
            fold["class"] = [*classes, "printed-open"]
            if summary:
                summary.name = "p"
                summary["class"] = ["printed-summary"]
    for code in place.select(".printed-code"):
        code.attrs.pop("aria-label", None)


def mark_long(place: Tag) -> None:
    for listing in place("pre"):
        if listing.get_text().count("\n") > LONG_LINES:
            listing["class"] = [*listing.get("class", []), "printed-long"]
    for table in place("table"):
        if len(table("tr")) > LONG_LINES // 2:
            table["class"] = [*table.get("class", []), "printed-long"]


def link(book: Book) -> None:
    """Links to pages of the book lead to their articles, to other pages of the site to the published site."""
    ids = {str(tag["id"]) for tag in tags(book, "[id]")}
    names = {article.name for article in book.articles}
    for article in book.articles:
        folder = article.name.rpartition("/")[0]
        for place in filter(None, (article.body, article.answers)):
            for anchor in place.select("a[href]"):
                address = str(anchor["href"])
                if re.match(r"[a-z]+:", address) or address.startswith("#"):
                    continue
                path, _, part = address.partition("#")
                path = normpath(join(folder, path))
                name = path.removesuffix(".html")
                if name not in names:
                    anchor["href"] = f"{book.live}/{path}" + (f"#{part}" if part else "")
                    continue
                sought = f"p-{stem(name)}--{part}"
                anchor["href"] = f"#{sought}" if sought in ids else f"#p-{stem(name)}"


def tags(book: Book, selector: str) -> list[Tag]:
    """All such elements of all articles and answers."""
    places = [place for article in book.articles for place in (article.body, article.answers) if place]
    return [tag for place in places for tag in (place, *place.select(selector)) if tag is not place or place.get("id")]


def lost(book: Book) -> list[str]:
    """Links within the book that lead nowhere."""
    ids = {str(tag["id"]) for tag in tags(book, "[id]")}
    hrefs = {str(tag["href"]) for tag in tags(book, "a[href^='#']") if tag.get("href")}
    return sorted(href for href in hrefs if href[1:] not in ids)
