"""What a page says: its sentences, one by one, and the same page in another language.

A message is a run of text between two block elements (a paragraph, a heading, a cell of a table, a label of a drawing),
or an attribute that is read out, or a string that a script's JSON shows. In its text

- numbers are ``{0}``, ``{1}`` …, so a sentence that a cell computes is one message, whatever it computed;
- code is `` `code` ``, and is taken over as it stands;
- other elements inside a sentence are ``<1>…</1>``, and what has no text, such as a formula, is ``<1/>``.

Pages are cut where their messages stand and never rebuilt, so all else stays byte for byte as it was.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from html import escape, unescape
from typing import Any

from .phrases import Phrases

INLINE = {
    "a",
    "abbr",
    "b",
    "cite",
    "code",
    "del",
    "dfn",
    "em",
    "i",
    "img",
    "ins",
    "kbd",
    "math",
    "mark",
    "mjx-container",
}
INLINE |= {"q", "s", "samp", "small", "span", "strong", "sub", "sup", "u", "var"}
ALONE = {"br", "img", "input", "wbr", "math", "mjx-container"}
"""Inline elements that say nothing themselves."""
CODE = {"code", "kbd", "samp"}
WHOLE = re.compile(
    r'<dt class="sig\b.*?</dt>|<(pre|script|style|template|textarea|mjx-container|math)\b.*?</\1>', re.DOTALL
)
"""Elements whose text is no sentence."""
APART = re.compile(r'class="[^"]*\b(?:headerlink|lab-origin|lab-cell-number|lab-report|lab-tip|sd-badge)\b')
"""Inline elements that stand beside a sentence, not in it."""
READ_OUT = re.compile(
    r"""\s(?:aria-label|title|alt|placeholder|data-bs-original-title|data-ask)=(?:"([^"]*)"|'([^']*)')"""
)
SHOWN = {"name", "options", "panels", "question", "unit", "text", "title", "label", "caption", "hovertemplate", "note"}
SHOWN |= {"choices", "ticktext", "measured", "guessed"}
"""Keys of a script's JSON under which a string is shown."""
HIDDEN = {"live", "font", "family", "color", "colorscale", "marker", "line", "key"}
"""Keys under which nothing is, but for the options of a live control, which it asks for as they are."""
ALL, LABELS = "all", "labels"
"""Those options, and how a page in another language shows them."""
JSON = re.compile(r'(<script\b[^>]*type="application/json"[^>]*>)(.*?)(</script>)', re.DOTALL)
AS_IT_IS = re.compile(
    r"(?:torch|triton|[Pp]ython|jax|numpy|CUDA|IPython|plotly|ipywidgets|g\+\+|C|versi(?:ón|ones)|ejercicios?|celdas?|"
    r"capítulos?|sección|cuadernos?|Ejercicios?|Celdas?|Capítulos?|#|§)[ \xa0]?$"
)
"""What stands before the number of a version or of a chapter."""

RIGHT = "text-align: right"
SPACE = " \t\r\n\xa0"
TOKEN = re.compile(
    r"""<!--.*?-->|<!doctype[^>]*>|<(?P<end>/?)(?P<tag>[a-z][\w-]*)(?:"[^"]*"|'[^']*'|[^"'>])*>""", re.DOTALL | re.I
)
NUMBER = re.compile(
    r"\d{4}-\d\d-\d\d|(?<![\w.\-])(?:\d+[A-Z]\d+|\d+(?:[.,]\d+)*(?:e[+\-\u2212]?\d+)?)(?![^\W²³]|[.,]\d)"
)
"""A date, a number, or an action of a pipeline's schedule (0F1)."""
BETWEEN = re.compile(r"(?<=[.!?])\s+|(?<!&quot)(?<!&amp)(?<!&lt)(?<!&gt)(?<!&#x27)(?<!&#39);\s+")
"""What parts the sentences of a text, and the members of an enumeration."""
WORD = re.compile(r"[^\W\d_]{2}")
HOLE = re.compile(r"\{(?P<raw>=?)(?P<number>\d+)\}|`(?P<code>[^`]*)`|<(?P<open>\d+)(?P<alone>/?)>|</(?P<close>\d+)>")


@dataclass
class Part:
    """A tag or a text of a page's source."""

    kind: str  # "text", "open", "close", "alone" inside a sentence; "block" between sentences
    tag: str
    start: int
    end: int


@dataclass
class Message:
    """What stands at ``start`` to ``end`` of a page's source: its ``text``, and what the marks in it stand for."""

    start: int
    end: int
    text: str = ""
    numbers: list[str] = field(default_factory=list)
    code: list[tuple[str, str]] = field(default_factory=list)
    tags: dict[int, list[str]] = field(default_factory=dict)
    attribute: bool = False

    def source(self, text: str, number: Callable[[str, str], str]) -> str:
        """The source of this message with other words; ``number`` writes a number, with what stands before it.

        Raises ValueError for a mark that this message has not.
        """
        left, parts, at = list(self.code), [], 0

        def mark(found: re.Match[str]) -> str:
            if found["number"]:
                value = self.numbers[int(found["number"])]
                return value if found["raw"] else number(value, text[: found.start()])
            if found["code"] is not None:
                at = [shown for shown, _ in left].index(found["code"])
                return left.pop(at)[1]
            tags = self.tags[int(found["open"] or found["close"])]
            return "".join(tags) if found["alone"] else tags[0 if found["open"] else 1]

        for found in HOLE.finditer(text):
            try:
                parts += [self._escaped(text[at : found.start()]), mark(found)]
            except (IndexError, KeyError, ValueError):
                raise ValueError(f"{found[0]!r} is no mark of {self.text!r}, in {text!r}") from None
            at = found.end()
        return "".join([*parts, self._escaped(text[at:])])

    def _escaped(self, words: str) -> str:
        return escape(unescape(words.replace("{{", "{")), quote=self.attribute)

    def masked(self, text: str) -> str:
        """``text`` with marks for its numbers, which are kept here."""

        def mark(found: re.Match[str]) -> str:
            if found[0].startswith("`"):
                shown = unescape(found[0][1:-1])
                self.code.append((shown, f"`{escape(shown, quote=self.attribute)}`"))
                return f"`{shown}`"
            self.numbers.append(found[0])
            return f"{{{len(self.numbers) - 1}}}"

        text = text.replace("{", "{{").replace("&", "&amp;").replace("<", "&lt;")
        if self.attribute:
            return re.sub(rf"`[^`]+`|{NUMBER.pattern}", mark, text)
        text = text.replace("`", "&grave;")
        return NUMBER.sub(mark, text)


def messages(source: str) -> Iterator[Message]:
    """The messages of a piece of HTML, but for those in scripts, in their order."""
    run: list[Part] = []
    numbers = False  # a column of numbers, or a drawing's labels: there a number alone is a message, too
    for part in _parts(source):
        if part.kind != "block":
            run.append(part)
            continue
        yield from _run_messages(run, source, numbers)
        run = []
        numbers = part.tag in ("text", "tspan") or RIGHT in source[part.start : part.end]
        yield from _read_out(part, source)
    yield from _run_messages(run, source, numbers)


def _parts(source: str) -> Iterator[Part]:
    at, apart = 0, list[str]()  # the inline elements that are open and count as blocks, with what is open inside them
    while at < len(source):
        whole = WHOLE.match(source, at)
        found = None if whole else TOKEN.match(source, at)
        if whole:
            kind = "alone" if whole[1] in ALONE else "block"
            yield Part(kind, whole[1], at, at := whole.end())
        elif found:
            tag, closes = (found["tag"] or "").lower(), bool(found["end"])
            kind = "block" if tag not in INLINE else "close" if closes else "open"
            if tag in ALONE:
                kind = "alone"
            elif kind == "open" and (apart or APART.search(found[0])):
                kind = kind if apart else "block"
                apart += [tag] if not apart or tag == apart[0] else []
            elif kind == "close" and apart and tag == apart[0]:
                apart.pop()
                kind = kind if apart else "block"
            yield Part(kind, tag, at, at := found.end())
        else:
            end = source.find("<", at + 1)
            yield Part("text", "", at, at := end if end > 0 else len(source))


def _partner(run: list[Part], at: int) -> int | None:
    """Where the element that opens or closes at ``at`` has its other tag."""
    step, depth = (1 if run[at].kind == "open" else -1), 0
    for place in range(at, len(run) if step > 0 else -1, step):
        depth += step * ((run[place].kind == "open") - (run[place].kind == "close"))
        if not depth:
            return place
    return None


def _run_messages(run: list[Part], source: str, numbers: bool) -> Iterator[Message]:
    """The messages of a run of inline parts and of their attributes."""
    for part in run:
        yield from _read_out(part, source)
    yield from _sentence(run, source, numbers)


def _sentence(run: list[Part], source: str, numbers: bool) -> Iterator[Message]:
    run = _trimmed(run, source)
    members = _members(run, source)
    for member in members if len(members) > 1 else ():
        yield from _sentence(member, source, numbers)
    if len(members) == 1 and (message := _message(run, source)) and (numbers or _has_words(message)):
        yield message


def _members(run: list[Part], source: str) -> list[list[Part]]:
    """The elements of a row that has no text of its own, such as a legend; else the run itself."""
    found, at = [], 0
    while at < len(run):
        end = _partner(run, at) if run[at].kind == "open" else at
        if (
            (run[at].kind == "text" and source[run[at].start : run[at].end].strip(SPACE))
            or end is None
            or run[at].tag in CODE
        ):
            return [run]
        found += [run[at : end + 1]] if end > at else []
        at = end + 1
    return found


def _trimmed(run: list[Part], source: str) -> list[Part]:
    """Without white space at its ends, elements that say nothing, and an element around all of it."""
    while run:
        first, last = run[0], run[-1]
        if first.kind in ("alone", "close") or _blank(first, source):
            run = run[1:]
        elif last.kind in ("alone", "open") or _blank(last, source):
            run = run[:-1]
        elif first.kind == "open" and (end := _partner(run, 0)) is None:
            run = run[1:]
        elif last.kind == "close" and _partner(run, len(run) - 1) is None:
            run = run[:-1]
        elif first.kind == "open" and first.tag not in CODE and end == len(run) - 1:
            run = run[1:-1]
        else:
            break
    return run


def _blank(part: Part, source: str) -> bool:
    return part.kind == "text" and not source[part.start : part.end].strip(SPACE)


def _message(run: list[Part], source: str) -> Message | None:
    whole = source[run[0].start : run[-1].end]
    start = run[-1].end - len(whole.lstrip(SPACE))
    message = Message(start, start + len(whole.strip(SPACE)))
    pieces: list[str] = []
    opened: list[int] = []
    at = 0
    while at < len(run):
        part = run[at]
        text = source[part.start : part.end]
        if part.kind == "text":
            words = re.sub(r"[ \t\r\n]+", " ", unescape(text))
            pieces.append(message.masked(words))
        elif part.kind == "open" and part.tag in CODE and (end := _partner(run, at)) is not None:
            inside = "".join(source[each.start : each.end] for each in run[at + 1 : end] if each.kind == "text")
            shown = re.sub(r"\s+", " ", unescape(inside)).replace("`", "'")
            message.code.append((shown, source[part.start : run[end].end]))
            pieces.append(f"`{shown}`")
            at = end
        elif part.kind == "close":
            if not opened:
                return None
            number = opened.pop()
            message.tags[number].append(text)
            pieces.append(f"</{number}>")
        else:
            number = len(message.tags) + 1
            message.tags[number] = [text]
            pieces.append(f"<{number}{'/' * (part.kind == 'alone')}>")
            if part.kind == "open":
                opened.append(number)
        at += 1
    message.text = "".join(pieces).strip(SPACE)
    return message if not opened and (message.numbers or _has_words(message)) else None


def _has_words(message: Message) -> bool:
    return bool(WORD.search(unescape(HOLE.sub("", message.text))))


def _read_out(part: Part, source: str) -> Iterator[Message]:
    if part.kind == "text" or part.tag in ("script", "mjx-container", "pre"):
        return
    for found in READ_OUT.finditer(source, part.start, part.end):
        start, end = found.span(1 if found[1] is not None else 2)
        yield from _sentences(source[start:end], start)


def page_messages(source: str) -> Iterator[Message]:
    """All messages of a page, those in its scripts too; places hold only inside the piece that a message came from."""
    yield from filter(_has_words, messages(source))
    for found in JSON.finditer(source):
        for text in _shown(json.loads(found[2])):
            yield from page_messages(text) if "<" in text else plain(text)


def _shown(value: Any, shown: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _shown(each, key == ALL or ((shown or key in SHOWN) and key not in HIDDEN))
    elif isinstance(value, list):
        for each in value:
            yield from _shown(each, shown)
    elif shown and isinstance(value, str) and WORD.search(value):
        yield value


def plain(text: str) -> Iterator[Message]:
    """The messages of a text without HTML."""
    return _sentences(escape(text, quote=False), 0)


def _sentences(text: str, start: int) -> Iterator[Message]:
    """Each sentence of a text, and each member of an enumeration, which is as long as what a cell has measured."""
    at = len(text) - len(text.lstrip(SPACE))
    for end, following in [*(found.span() for found in BETWEEN.finditer(text)), (len(text.rstrip(SPACE)), len(text))]:
        words = re.sub(r"\s+", " ", unescape(text[at:end]))
        if WORD.search(words):
            message = Message(start + at, start + end, attribute=True)
            message.text = message.masked(words)
            yield message
        at = following


def rewritten(source: str, speak: Callable[[Message], str | None]) -> str:
    """A page with other words. ``speak`` gives the source of a message, or None, and then it stays as it is."""
    if READ_OUT.search(source):
        source = _spliced(source, (each for each in messages(source) if each.attribute), speak)
    source = _spliced(source, (each for each in messages(source) if not each.attribute), speak)

    def script(found: re.Match[str]) -> str:
        value = _rewritten_json(json.loads(found[2]), speak)
        return found[1] + json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/") + found[3]

    return JSON.sub(script, source)


def _spliced(source: str, found: Iterable[Message], speak: Callable[[Message], str | None]) -> str:
    parts, at = [], 0
    for message in sorted(found, key=lambda each: each.start):
        if (words := speak(message)) is not None:
            parts += [source[at : message.start], words]
            at = message.end
    return "".join([*parts, source[at:]])


def _rewritten_json(value: Any, speak: Callable[[Message], str | None], shown: bool = False) -> Any:
    if isinstance(value, dict):
        if {"data", "layout"} <= value.keys():  # a plotly figure
            value["layout"]["separators"] = ",\u202f"
        labels = {LABELS: _rewritten_json(value[ALL], speak, shown=True)} if ALL in value else {}
        return labels | {
            key: _rewritten_json(each, speak, (shown or key in SHOWN) and key not in HIDDEN)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_rewritten_json(each, speak, shown) for each in value]
    if not shown or not isinstance(value, str) or not WORD.search(value):
        return value
    if "<" in value:
        return rewritten(value, speak)
    return unescape(_spliced(escape(value, quote=False), plain(value), speak))


def number(value: str, before: str) -> str:
    """A number with the separators of Spanish. Dates, versions and the numbers of chapters stay as they are.

    >>> number("12,345.5", ""), number("1,024", ""), number("2.13", "torch "), number("2026-11-30", "")
    ('12\\u202f345,5', '1024', '2.13', '2026-11-30')
    """
    found = re.fullmatch(r"(?!0\d)(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?(e.*)?", value)
    if not found or AS_IT_IS.search(before):
        return value
    whole = found[1].replace(",", "")
    groups = f"{int(whole):,}".replace(",", "\u202f") if len(whole) > 4 else whole
    return groups + (f",{found[2]}" if found[2] else "") + (found[3] or "")


class Translation:
    """Sentences in another language, by their text in English; ``left`` collects those that it has not.

    With ``phrases`` a sentence that is not known is put together from parts that are.

    >>> rewritten("<p>It takes 1.5 ms.</p>", Translation({"It takes {0} ms.": "Tarda {0} ms."}))
    '<p>Tarda 1,5 ms.</p>'
    """

    def __init__(self, known: Mapping[str, str], phrases: Phrases | None = None):
        self.known, self.phrases, self.left = known, phrases, set[str]()

    def __call__(self, message: Message) -> str | None:
        words = self.known.get(message.text)
        if not _has_words(message):
            words = re.sub(r"(?<=\})%", "\xa0%", message.text)
        if words is None and self.phrases:
            words = self.phrases(message.text)
        if words is None:
            self.left.add(message.text)
            return None
        return message.source(words, number)


def spoken(source: str, sentences: str) -> str:
    """A piece of HTML that Python has made in a page, in the page's language: ``sentences`` is a JSON of what is known.

    >>> spoken("<p>It took 1.5 ms: too long.</p>", '{"It took {a}: {b}": "Tardó {a}: {b}", "too long.": "mucho."}')
    '<p>Tardó 1,5 ms: mucho.</p>'
    """
    return rewritten(source, _translation(sentences)) if sentences else source


@cache
def _translation(sentences: str) -> Translation:
    known = json.loads(sentences)
    return Translation(known, Phrases(known))
