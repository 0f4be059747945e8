"""The EPUB: an XHTML file for each article and for its answers, the site's fonts and styles, and no script."""

import copy
import io
import re
import uuid
import zipfile
from dataclasses import dataclass
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import tinycss2
from bs4 import Tag

from printed.articles import Article, Book, PrintError
from printed.browser import Press, shared_file
from printed.pdf import PAPER, SHEETS

FONTS = ("source-sans-3", "source-sans-3-italic", "jetbrains-mono")
NARROW = "max-width"
CONTAINER = """<?xml version="1.0" encoding="utf-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="book/content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
KINDS = {
    ".xhtml": "application/xhtml+xml",
    ".css": "text/css",
    ".woff2": "font/woff2",
    ".txt": "text/plain",
}
FEATURES = ("tableOfContents", "structuralNavigation", "ARIA", "alternativeText", "MathML")
HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'


@dataclass(frozen=True)
class Edition:
    """What the package says of itself. ``date``: 2026-11-30, of the site that it was made from."""

    author: str
    abstract: str
    version: str
    date: str
    subjects: tuple[str, ...] = ()


def flat(css: str) -> str:
    """A sheet of the site for a page with no margin and no script: rules for paper hold, those for wide screens go."""
    kept = []
    for rule in tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True):
        if rule.type == "at-rule" and rule.lower_at_keyword == "media":
            condition = tinycss2.serialize(rule.prelude)
            body = tinycss2.serialize(rule.content)
            if condition.strip() == "print":
                kept.append(body)
            elif NARROW in condition and "min-width" not in condition:
                kept.append(rule.serialize())
        elif rule.type != "error":
            kept.append(rule.serialize())
    return "\n".join(kept)


def styles(site: Path) -> str:
    """The site's sheets and the book's own, as one. Fonts stand beside it."""
    sheets = [flat(shared_file(site, f"_static/{name}").read_text("utf-8")) for name in SHEETS]
    return "\n".join([*sheets, flat(PAPER.read_text("utf-8"))]).replace("vendor/", "fonts/")


def page(book: Book, title: str, body: str, more: str = "") -> str:
    return f"""<!doctype html><html lang="{book.language}" xml:lang="{book.language}" data-theme="light"{more}><head>
<meta charset="utf-8"><title>{escape(title)}</title><link rel="stylesheet" type="text/css" href="styles.css"></head>
<body class="printed printed-pages">{body}</body></html>"""


def files_of(article: Article) -> dict[str, Tag]:
    found = {f"{article.id}.xhtml": article.body}
    if article.answers:
        found[f"{article.id}-answers.xhtml"] = article.answers
    return found


def homes(places: dict[str, Tag]) -> dict[str, str]:
    """The file in which each id stands."""
    return {
        str(tag["id"]): name
        for name, place in places.items()
        for tag in (place, *place.select("[id]"))
        if tag.get("id")
    }


def relinked(place: Tag, here: str, home: dict[str, str]) -> str:
    """An article whose links name the files of other articles."""
    place = copy.copy(place)
    for anchor in place.select("a[href^='#']"):
        sought = str(anchor["href"])[1:]
        if home.get(sought, here) != here:
            anchor["href"] = f"{home[sought]}#{sought}"
    return str(place)


def xhtml(press: Press, html: str) -> str:
    """Well-formed, and without the prefixed attributes of an older SVG that no reader needs."""
    text = press.xhtml(html)
    return HEAD + re.sub(r"^<!DOCTYPE[^>]*>", "", text)


def navigation(book: Book, home: dict[str, str]) -> str:
    """The contents as EPUB wants them; answers come last."""

    def entry(place: str, title: str, inner: str = "") -> str:
        file = home[place]
        address = (
            file if place.removesuffix("-answers") + ".xhtml" == file or place + ".xhtml" == file else f"{file}#{place}"
        )
        return f'<li><a href="{address}">{escape(title)}</a>{f"<ol>{inner}</ol>" if inner else ""}</li>'

    parts = []
    for part, articles in book.parts().items():
        chapters = "".join(
            entry(article.id, article.label, "".join(entry(*section) for section in article.sections()))
            for article in articles
        )
        parts.append(f"<li><span>{escape(part)}</span><ol>{chapters}</ol></li>")
    answers = "".join(entry(f"{article.id}-answers", article.label) for article in book.articles if article.answers)
    if answers:
        parts.append(f"<li><span>{escape(book.words['answers'])}</span><ol>{answers}</ol></li>")
    title = escape(book.words["contents"])
    return f"""{HEAD}<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"
lang="{book.language}" xml:lang="{book.language}"><head><title>{title}</title>
<link rel="stylesheet" type="text/css" href="styles.css"/></head><body class="printed"><nav epub:type="toc" id="toc">
<h1>{title}</h1><ol>{"".join(parts)}</ol></nav></body></html>"""


def package(book: Book, edition: Edition, files: dict[str, bytes], spine: list[str]) -> str:
    """``content.opf``: what the book is, its files, and their order."""

    def item(name: str) -> str:
        properties = ["nav"] if name == "nav.xhtml" else []
        text = files[name] if name.endswith(".xhtml") else b""
        properties += [word for word, sign in (("svg", b"<svg"), ("mathml", b"<math")) if sign in text]
        named_properties = f' properties="{" ".join(properties)}"' if properties else ""
        kind = KINDS[Path(name).suffix]
        return f'<item id="{identifier(name)}" href="{name}" media-type="{kind}"{named_properties}/>'

    subjects = "".join(f"<dc:subject>{escape(subject)}</dc:subject>" for subject in edition.subjects)
    features = "".join(f'<meta property="schema:accessibilityFeature">{feature}</meta>' for feature in FEATURES)
    named = uuid.uuid5(uuid.NAMESPACE_URL, f"{book.live}/{book.language}/{edition.version}")
    return f"""<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="named" xml:lang="{book.language}">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="named">urn:uuid:{named}</dc:identifier>
<dc:title>{escape(book.title)}</dc:title><dc:language>{book.language}</dc:language>
<dc:creator>{escape(edition.author)}</dc:creator><dc:date>{edition.date}</dc:date>
<dc:description>{escape(edition.abstract)}</dc:description><dc:rights>{escape(book.words["licence"])}</dc:rights>
<dc:source>{book.live}/</dc:source>{subjects}
<meta property="dcterms:modified">{edition.date}T00:00:00Z</meta>
<meta property="schema:accessMode">textual</meta><meta property="schema:accessMode">visual</meta>
<meta property="schema:accessibilityHazard">none</meta>{features}
</metadata><manifest>{"".join(map(item, files))}</manifest>
<spine>{"".join(f'<itemref idref="{identifier(name)}"/>' for name in spine)}</spine></package>"""


def identifier(name: str) -> str:
    return "f-" + re.sub(r"[^\w-]", "-", name)


def bind(book: Book, press: Press, edition: Edition, site: Path, edition_line: str) -> bytes:
    """The EPUB's bytes. Raises PrintError for a file that is not sound, and says which."""
    places: dict[str, Tag] = {}
    for article in book.articles:
        places |= files_of(article)
    home = homes(places)
    front = f"""<header class="printed-title"><h1>{escape(book.title)}</h1><p>{escape(edition_line)}
<a href="{book.live}/">{book.live.removeprefix("https://")}</a></p><p>{escape(book.words["licence"])}</p></header>"""
    files = {"title.xhtml": xhtml(press, page(book, book.title, front)).encode()}
    for name, place in places.items():
        title = place.h1.get_text(" ", strip=True)
        files[name] = xhtml(press, page(book, title, relinked(place, name, home))).encode()
    answers = [name for name in places if name.endswith("-answers.xhtml")]
    spine = ["title.xhtml", "nav.xhtml", *(name for name in places if name not in answers), *answers]
    files["nav.xhtml"] = navigation(book, home).encode()
    files["styles.css"] = styles(site).encode()
    for font in FONTS:
        files[f"fonts/{font}.woff2"] = shared_file(site, f"_static/vendor/{font}.woff2").read_bytes()
    for licence in ("source-sans-3", "jetbrains-mono"):
        files[f"fonts/{licence}-LICENSE.txt"] = shared_file(site, f"_static/vendor/{licence}-LICENSE.txt").read_bytes()
    opf = package(book, edition, files, spine)
    made = packed({"content.opf": opf.encode(), **files})
    if wrong := troubles(made):
        raise PrintError("The EPUB is not sound: " + "; ".join(wrong[:5]))
    return made


def packed(files: dict[str, bytes]) -> bytes:
    """A ZIP archive whose first file says what it is and is not compressed."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(zipfile.ZipInfo("mimetype"), "application/epub+zip", zipfile.ZIP_STORED)
        for name, body in {"META-INF/container.xml": CONTAINER.encode()}.items():
            archive.writestr(name, body)
        for name, body in files.items():
            archive.writestr(f"book/{name}", body)
    return made.getvalue()


def troubles(made: bytes) -> list[str]:
    """What is wrong with an EPUB: files not well-formed, not listed or not there, links that lead nowhere, scripts."""
    archive = zipfile.ZipFile(io.BytesIO(made))
    first = archive.infolist()[0]
    wrong = []
    if first.filename != "mimetype" or first.compress_type != zipfile.ZIP_STORED:
        wrong.append("mimetype is not the first file, or is compressed")
    names = {name.removeprefix("book/") for name in archive.namelist() if name.startswith("book/")} - {"content.opf"}
    trees: dict[str, ElementTree.Element] = {}
    for name in sorted(names | {"content.opf"}):
        if name.endswith((".xhtml", ".opf")):
            try:
                trees[name] = ElementTree.fromstring(archive.read(f"book/{name}"))
            except ElementTree.ParseError as error:
                wrong.append(f"{name} is not well-formed: {error}")
    if "content.opf" in trees:
        listed = {item.get("href") for item in trees.pop("content.opf").iter("{http://www.idpf.org/2007/opf}item")}
        wrong += [f"{name} is not in the manifest" for name in sorted(names - listed)]
        wrong += [f"{name} is in the manifest and not there" for name in sorted(listed - names)]
    ids = {name: [tag.get("id") for tag in tree.iter() if tag.get("id")] for name, tree in trees.items()}
    for name, tree in trees.items():
        if len(set(ids[name])) < len(ids[name]):
            wrong.append(f"{name} has an id twice")
        for tag in tree.iter():
            if tag.tag.endswith("}script"):
                wrong.append(f"{name} has a script")
            for attribute in ("href", "src"):
                address = tag.get(attribute, "")
                if not address or re.match(r"[a-z]+:", address):
                    continue
                file, _, part = address.partition("#")
                if (file or name) not in names or (part and part not in ids.get(file or name, [])):
                    wrong.append(f"{name}: {address} leads nowhere")
    return wrong
