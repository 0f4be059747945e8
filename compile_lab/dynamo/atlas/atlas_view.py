"""The atlas as a table: what torch calls a break, the function that has it, and the one that does the same unbroken."""

from collections.abc import Sequence

from ...doors import door
from ...page.tables import Table
from .run import AtlasResult


@door
def entries(results: Sequence[AtlasResult]) -> Table:
    """A row an entry: id, kind in torch's words, theme, the trigger's source, the cure's source or the reason.

    Raises ValueError without an entry.
    """
    if not results:
        raise ValueError("nothing to show: run() gives the atlas's entries")
    rows = [(each.id, each.kind, each.theme, each.trigger, each.cure or f"no cure: {each.reason}") for each in results]
    return Table(["id", "torch says", "theme", "breaks the graph", "the same in one graph"], rows)


@door
def coverage(results: Sequence[AtlasResult]) -> Table:
    """A row for each theme: its entries, kinds, cures, and those without one. Raises ValueError without an entry."""
    if not results:
        raise ValueError("nothing to show: run() gives the atlas's entries")
    themes = dict.fromkeys(each.theme for each in results)
    rows = []
    for theme in themes:
        own = [each for each in results if each.theme == theme]
        cured = sum(bool(each.cured) for each in own)
        rows.append((theme, len(own), len({each.id for each in own}), cured, len(own) - cured))
    return Table(["theme", "entries", "kinds", "cured", "no cure, with its reason"], rows)
