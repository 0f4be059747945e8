"""Sentences that are made of parts, in another language: a judge's answers, an explorer's panels.

A template is a message's text (``messages.py``) in which ``{a}``, ``{b}`` … stand for its parts, in that order: each is
a value, or words that are a sentence or a template themselves. In its translation ``{=a}`` is a part as it stands.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice

PART = re.compile(r"\{=?[a-z]\}")
MARK = re.compile(r"\{=?\d+\}|</?\d+/?>")
"""What a message has for its numbers and elements; they are counted anew in each part."""
ANY = re.compile(rf"{PART.pattern}|{MARK.pattern}")
PROSE = re.compile(r"\b(?:[a-z]{2,} [a-z]{2,}|and|at|by|for|from|in|is|it|of|on|or|the|to|with)\b")
"""What only words have that are said in English, and no value."""
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
CODE = re.compile(r"[\[\]()='\"_`]|\{\{|\}\}")
NEGATIVE = re.compile(r"(?<!\w)(-\d+)\.(\d+)")
"""A number that a message has no mark for."""
VALUES = ("[", "(", "{{", "'", '"')
"""What a value of Python begins with, and no sentence."""
MOST_TRIED = 100
SAYS_MUCH = 8
"""Letters of a template that is taken although a part of it stays in English."""
LONGEST = 300
"""Letters of a text that a template of little more than a colon takes apart: of a longer one there are many ways."""

Found = tuple[str, set[str]]
"""The words, and what of them has stayed in English."""


class Template:
    """Words with parts, in both languages."""

    def __init__(self, english: str, words: str):
        self.english, self.words = english, words
        self.parts, self.literals = PART.findall(english), PART.split(english)
        self.pieces = [piece for each in self.literals for piece in MARK.split(each) if piece]
        self.size = sum(map(len, self.pieces))
        self.loose = not self.literals[0] and self.size < SAYS_MUCH

    @cached_property
    def patterns(self) -> list[re.Pattern[str]]:
        """What stands before, between and behind the parts."""
        *several, last = (
            "".join(
                _pattern(mark) if MARK.fullmatch(mark) else re.escape(mark)
                for mark in re.split(f"({MARK.pattern})", each)
            )
            for each in self.literals
        )
        return [re.compile(each) for each in (*several, rf"{last}\Z")]

    def matches(self, text: str) -> Iterator[dict[str, str]]:
        """Each way in which `text` may be this template: what stands for each part and each mark."""
        first = self.patterns[0].match(text) if all(piece in text for piece in self.pieces) else None
        if first:
            within = {at for mark in MARK.finditer(text) for at in range(mark.start() + 1, mark.end())}
            yield from self._matches(text, first, 0, within)

    def _matches(self, text: str, found: re.Match[str], at: int, within: set[int]) -> Iterator[dict[str, str]]:
        marks = dict(zip(MARK.findall(self.literals[at]), MARK.findall(found[0]), strict=True))
        if at == len(self.parts):
            yield marks
            return
        for following in self.patterns[at + 1].finditer(text, found.end() + 1):
            if following.start() in within:  # no part ends inside a mark
                continue
            part = {self.parts[at]: text[found.end() : following.start()]}
            for others in self._matches(text, following, at + 1, within):
                yield marks | part | others


class Phrases:
    """What is said, in another language; `left` collects the words that have none.

    Of several templates that fit the one with the most words is taken; first come those that begin with words.
    """

    def __init__(self, known: Mapping[str, str]):
        several = [Template(english, words) for english, words in known.items() if PART.search(english)]
        self.templates = sorted(several, key=lambda each: (each.literals[0] == "", -each.size))
        self.whole = {_uncounted(english): (english, words) for english, words in known.items()}
        self.left = set[str]()

    def __call__(self, text: str) -> str | None:
        """The words for a message's text; None if no template fits."""
        words, left = self._found(text, {}) or (None, set[str]())
        self.left |= left
        return words

    def _found(self, text: str, tried: dict[str, Found | None]) -> Found | None:
        if text not in tried:
            tried[text] = None if text.startswith(VALUES) else self._sought(text, tried)
        return tried[text]

    def _sought(self, text: str, tried: dict[str, Found | None]) -> Found | None:
        """As little as can be stays in English."""
        if same := self.whole.get(_uncounted(text)):
            marks = dict(zip(MARK.findall(same[0]), MARK.findall(text), strict=True))
            return _filled(same[1], marks), set()
        least: Found | None = None
        for template in self.templates:
            if template.loose and len(text) > LONGEST:
                continue
            for marks in islice(template.matches(text), MOST_TRIED):
                parts = {part: self._found(marks[part], tried) or _value(marks[part]) for part in template.parts}
                words = _filled(template.words, marks | {part: said for part, (said, _) in parts.items()})
                left = set[str]().union(*(each for _, each in parts.values()))
                if not left:
                    return words, left
                if template.size >= SAYS_MUCH and (least is None or len(left) < len(least[1])):
                    least = words, left
        return least


def _pattern(mark: str) -> str:
    """For any mark of this kind."""
    return r"\{\d+\}" if mark[0] == "{" else re.sub(r"\d+", r"\\d+", mark)


def _uncounted(text: str) -> str:
    return MARK.sub(lambda mark: re.sub(r"\d+", "", mark[0]), text)


def _raw(text: str) -> str:
    return re.sub(r"\{(\d+)\}", r"{=\1}", text)


def _value(text: str) -> Found:
    left = {text} if PROSE.search(QUOTED.sub("", text)) else set[str]()
    if CODE.search(text):
        return _raw(text), left
    return NEGATIVE.sub(r"\1,\2", re.sub(r"(?<=\})%", "\xa0%", text)), left


def _filled(words: str, marks: Mapping[str, str]) -> str:
    """`words` with what stands for its marks. KeyError for a mark that is not there."""

    def put(found: re.Match[str]) -> str:
        raw = found[0].startswith("{=")
        mark = marks[found[0].replace("=", "", 1) if raw else found[0]]
        return _raw(mark) if raw else mark

    return ANY.sub(put, words)
