"""What a chapter shows besides pictures: a table, a listing.

Both print themselves as HTML on a page and as aligned text everywhere else, and both need nothing but Python.
"""

import html
import re
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from ..doors import door
from .units import number

MARK = "▶"


def paragraphs(text: str) -> str:
    """Plain text as HTML: a blank line parts paragraphs; in each, marks as in `marked_up`."""
    blocks = [block.strip() for block in re.split(r"\n\s*\n", textwrap.dedent(text).strip())]
    return "".join(f"<p>{marked_up(block)}</p>" for block in blocks if block)


def marked_up(text: str) -> str:
    """One line of plain text as HTML: `backticks` mark code, *one* and **two** asterisks emphasis.

    >>> marked_up("**Twice** the *same* `*args`, 2 * 3 * 4, and [*] vs [*]")
    '<strong>Twice</strong> the <em>same</em> <code>*args</code>, 2 * 3 * 4, and [*] vs [*]'
    """
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(
        f"<code>{html.escape(piece[1:-1])}</code>"
        if piece.startswith("`") and len(piece) > 2
        else _emphasised(html.escape(piece, quote=False))
        for piece in pieces
    )


def _emphasised(text: str) -> str:
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"(?<![\w*])\*(\w(?:[^*]*\w)?)\*(?![\w*])", r"<em>\1</em>", text)


@door
@dataclass(frozen=True)
class Code:
    """Source code to be read: highlighted on a page, plain elsewhere; in a table's cell, one monospaced piece.

    `mark` holds line numbers, from 1, that get a ▶ in the margin; with any mark, every line gets a margin.
    Raises ValueError for a marked line that is not there, or a language that Pygments does not know.

    >>> from compile_lab.page import Code
    >>> Code("print(x)", title="Where it breaks", mark=[1])
    Where it breaks:
    ▶ print(x)
    """

    source: str
    language: str = "python"
    title: str | None = None
    mark: Collection[int] = ()

    def __post_init__(self) -> None:
        count = len(self.lines)
        if outside := sorted(line for line in self.mark if not 1 <= line <= count):
            raise ValueError(f"mark={outside} is outside the {count} lines of this code; lines count from 1")
        if self.language != "python":
            _lexer(self.language)  # an unknown name is told here, where the reader wrote it

    @property
    def lines(self) -> list[str]:
        return self.source.expandtabs(4).rstrip().split("\n")

    def inline(self) -> str:
        """The same inside a line of text, as HTML."""
        return "<br>".join(f"<code>{html.escape(line)}</code>" for line in self.lines)

    def __repr__(self) -> str:
        margin = dict.fromkeys(self.mark, MARK)
        body = [f"{margin.get(n, ' ')} {line}" if margin else line for n, line in enumerate(self.lines, 1)]
        return "\n".join([*([f"{self.title}:"] if self.title else []), *body])

    def _repr_html_(self) -> str:
        title = f'<p class="lab-code-title">{marked_up(self.title)}</p>' if self.title else ""
        body = "\n".join(self._margin(n, line) for n, line in enumerate(self._highlighted(), 1))
        return f'{title}<div class="highlight"><pre>{body}\n</pre></div>'

    def _highlighted(self) -> list[str]:
        lexer = _lexer(self.language)
        if lexer is None:
            return [html.escape(line) for line in self.lines]
        from pygments import highlight
        from pygments.formatters import HtmlFormatter

        return highlight("\n".join(self.lines), lexer, HtmlFormatter(nowrap=True)).rstrip("\n").split("\n")

    def _margin(self, line_number: int, line: str) -> str:
        if not self.mark:
            return line
        if line_number not in self.mark:
            return f"  {line}"
        # The margin is not part of the code: copying the listing should leave it behind.
        sign = f'<span class="lab-mark" style="user-select: none">{MARK} </span>'
        return f'<span class="hll">{sign}{line}</span>'


def _lexer(language: str) -> Any:
    try:
        from pygments.lexers import get_lexer_by_name
        from pygments.util import ClassNotFound
    except ImportError:  # it comes with IPython; in plain Python a listing is plain too
        return None
    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        raise ValueError(f"no highlighting for the language {language!r}; try 'text'") from None


Cell = str | int | float | bool | Code | None


@door
@dataclass(frozen=True)
class Table:
    """Rows under named columns. Columns of numbers stand to the right, unless `align` says, one of l, c, r a column.

    A cell is text, a number, a truth value ("yes", "no"), `Code`, or None for "does not apply" (a dash). With `folded`,
    its one line, the table opens when that is clicked: for what a picture has shown, and for reference.
    Raises ValueError for a row or an `align` that does not fit the columns.

    >>> from compile_lab.page import Table
    >>> Table(["schedule", "bubble, %", "exact"], [["GPipe", 27.3, True], ["ZBVZeroBubble", 9, None]])
    schedule       bubble, %  exact
    ─────────────  ─────────  ─────
    GPipe               27.3  yes
    ZBVZeroBubble          9  –
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    align: str | None = None
    folded: str = ""

    def __post_init__(self) -> None:
        for index, row in enumerate(self.rows):
            if isinstance(row, str) or len(row) != len(self.columns):
                raise ValueError(f"row {index} has {len(row)} cells for {len(self.columns)} columns: {row!r}")
        if self.align is not None and (len(self.align) != len(self.columns) or set(self.align) - set("lcr")):
            raise ValueError(f"align={self.align!r} needs one of l, c, r for each of {len(self.columns)} columns")

    @property
    def _sides(self) -> list[str]:
        if self.align is not None:
            return list(self.align)
        columns = [[row[i] for row in self.rows] for i in range(len(self.columns))]
        return ["r" if _all_numbers(column) else "l" for column in columns]

    def __repr__(self) -> str:
        texts = [[_text(cell) for cell in row] for row in self.rows]
        lines = [[text.split("\n") for text in row] for row in [list(self.columns), *texts]]
        widths = [max(len(part) for row in lines for part in row[i]) for i in range(len(self.columns))]
        place = {"l": str.ljust, "c": str.center, "r": str.rjust}
        aligned = [
            "  ".join(
                place[side](part, width) for part, width, side in zip(parts, widths, self._sides, strict=True)
            ).rstrip()
            for row in lines
            for parts in zip_longest(*row, fillvalue="")
        ]
        head = 1 + max((column.count("\n") for column in self.columns), default=0)
        rule = "  ".join("─" * width for width in widths)
        return "\n".join([*([self.caption] if self.caption else []), *aligned[:head], rule, *aligned[head:]])

    def _repr_html_(self) -> str:
        caption = f"<caption>{marked_up(self.caption)}</caption>" if self.caption else ""
        # The side is written on each cell because JupyterLab's own style sheet sends every cell to the right.
        sides = [{"l": "left", "c": "center", "r": "right"}[side] for side in self._sides]
        head = "".join(
            f'<th scope="col" style="text-align: {side}">{marked_up(column)}</th>' if column else "<td></td>"
            for column, side in zip(self.columns, sides, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="text-align: {side}">{_markup(cell)}</td>' for cell, side in zip(row, sides, strict=True)
            )
            + "</tr>\n"
            for row in self.rows
        )
        table = f'<table class="lab-table">{caption}\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>'
        if not self.folded:
            return table
        return f'<details class="lab-behind"><summary>{marked_up(self.folded)}</summary>{table}</details>'


def _all_numbers(column: Sequence[Cell]) -> bool:
    present = [cell for cell in column if cell is not None]
    return bool(present) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in present)


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, Code):
        return cell.source
    return number(cell) if isinstance(cell, int | float) else str(cell)


def _markup(cell: Cell) -> str:
    if isinstance(cell, Code):
        return cell.inline()
    return marked_up(_text(cell)).replace("\n", "<br>")
