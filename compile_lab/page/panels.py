"""What one choice of an explorer shows: pieces, one under the other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .axes import Value, choice_text
from .figures import Drawing, Figure
from .tables import Code, Table, paragraphs

Piece = str | Table | Code | Figure | Drawing


@dataclass(frozen=True)
class Panel:
    """What one choice shows: its pieces, one under the other."""

    pieces: tuple[Piece, ...]

    def __repr__(self) -> str:
        return "\n\n".join(piece if isinstance(piece, str) else repr(piece) for piece in self.pieces)

    def _repr_html_(self) -> str:
        return "\n".join(paragraphs(piece) if isinstance(piece, str) else piece._repr_html_() for piece in self.pieces)

    def _ipython_display_(self) -> None:
        # Each piece by itself, so that a figure among them is drawn by whatever draws figures here.
        from IPython.display import display

        for piece in self.pieces:
            if isinstance(piece, str):
                display({"text/html": paragraphs(piece), "text/plain": piece}, raw=True)
            else:
                display(piece)


def computed(panel: Callable[..., Any], choice: Mapping[str, Value]) -> Panel:
    """What `panel` shows for this choice. TypeError for a piece that a page cannot show."""
    result = panel(**choice)
    pieces = tuple(result) if isinstance(result, list | tuple) else (result,)
    for piece in pieces:
        if not isinstance(piece, Piece):
            kind = type(piece).__name__
            made_of = ", ".join(each.__name__ for each in (Table, Code, Figure, Drawing))
            raise TypeError(f"a panel is made of text, {made_of}; for {choice_text(choice)} it has a {kind}")
    return Panel(pieces)


def answered(panel: Callable[..., Any], choice: Mapping[str, Value]) -> Panel:
    """``computed`` for a reader who may choose any value: if the instrument refuses it, its message is the answer."""
    try:
        return computed(panel, choice)
    except ValueError as error:
        return Panel((f"**Not possible.** {error}",))
