"""What a Spanish page quotes in English (torch's errors, guards, lines of a library) is marked as English.

A screen reader then says it with an English voice (WCAG 3.1.2).
"""

import re

from compile_lab.page.messages import WHOLE

ENGLISH = re.compile(
    r"\b(?:the|and|which|with|of|is|are|for|that|this|from|what|how|when|each|it|by|an)\b", re.IGNORECASE
)
"""Words that no Spanish sentence has, and hardly an English one is without."""
SPANISH = re.compile(r"(?<![\w.])(?:el|la|los|las|un|una|de|del|al|que|en|y|se|su|por|para|con)\b", re.IGNORECASE)
TEXT = re.compile(
    rf"{WHOLE.pattern}|<(code|kbd|samp|option|title|text)\b.*?</\2>|(?<=>)(?P<text>[^<]+)(?=<)", re.DOTALL
)
"""Elements that are left alone, or a text between two tags."""
CUT = re.compile(r"(: |(?<!&lt)(?<!&gt)(?<!&amp)(?<!&quot)(?<!&#39)(?<!&#x27);\s|[()«»“”])")


def quoted(page: str) -> str:
    """The page, its English marked.

    >>> quoted("<td>el paso: RuntimeError: Cannot compute the size of this</td>")
    '<td>el paso: RuntimeError: <span lang="en">Cannot compute the size of this</span></td>'
    """
    return TEXT.sub(lambda found: _marked(found["text"]) if found["text"] else found[0], page)


def _marked(text: str) -> str:
    if len(ENGLISH.findall(text)) < 2:
        return text
    if not SPANISH.search(text) and ": " not in text:
        return _spanned(text)
    return "".join(part if SPANISH.search(part) else _spanned(part) for part in CUT.split(text))


def _spanned(text: str) -> str:
    words = text.strip()
    return text.replace(words, f'<span lang="en">{words}</span>', 1) if ENGLISH.search(words) else text
