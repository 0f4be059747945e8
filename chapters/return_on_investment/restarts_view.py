"""What restarts found, as it is seen: a line a start, what each cache said, and the seconds that it took."""

from collections.abc import Sequence

from compile_lab.page.canvas import Canvas, key, round_ticks
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table
from compile_lab.page.units import with_unit

from .restarts import LAYERS, Restart, Restarts

SAID = {"hit": "green", "both": "yellow", "miss": "vermillion", "bypass": "purple", "not queried": "grey"}
_ROW, _CELL, _BARS, _RIGHT = 56, 150, 330.0, 900.0


def picture(found: Restarts, names: Sequence[str] = (), caption: str = "", cpu: bool = False) -> Drawing:
    """A row for each start, or for those named: two cells for the layers' answers, and a bar for the time until the
    first step is done, on the wall or, with ``cpu``, of work.

    Raises ValueError for a name that no start has.
    """
    for name in names:
        if name not in found.starts:
            raise ValueError(f"no start is called {name!r}; there are {', '.join(found.starts)}")
    chosen = [found.starts[name] for name in names or found.starts]
    times = [(one.cpu_s if cpu else one.seconds) or 0.0 for one in chosen]
    canvas, until = Canvas(), max(*times, 1e-3)
    for at, layer in enumerate(LAYERS):
        canvas.words(_CELL * at + _CELL / 2, 18, layer.split("'")[0], anchor="middle")
    for row, (one, taken) in enumerate(zip(chosen, times, strict=True)):
        top = 44 + _ROW * row  # the name stands above, where a phone's larger letters have room
        canvas.words(_BARS, top - 4, one.name)
        for at, layer in enumerate(LAYERS):
            said = one.said(layer)
            box = (_CELL * at, top + 2, _CELL - 6, 26)
            canvas.box(*box, SAID.get(said, "grey"), said, title=f"{layer}: {said}", faint=said == "not queried")
        long = taken / until * (_RIGHT - _BARS)
        canvas.box(_BARS, top + 2, max(long, 1), 26, "blue", title=f"{one.name}: {taken:.3g} s")
        canvas.words(_BARS + long + 8, top + 22, "stopped" if one.stopped else f"{taken:.3g} s")
    canvas.axis(_BARS, 38 + _ROW * len(chosen), _RIGHT - _BARS, round_ticks(until, "s"))
    clock = "CPU seconds" if cpu else "seconds"
    alt = f"{clock} until the first step is done: " + "; ".join(map(_told, chosen, times)) + "."
    caption = caption or f"{found.what}: {clock} until the first step is done, less a later step"
    legend = key({word: colour for word, colour in SAID.items() if any(word in _words(one) for one in chosen)})
    return Drawing(canvas.svg(), alt, caption, table(chosen), found.provenance, legend)


def table(starts: Sequence[Restart]) -> Table:
    """One row for each start, its counters in full."""
    rows = [
        (
            one.name,
            *(f"{_counts(one, layer)}" for layer in LAYERS),
            one.seconds,
            one.cpu_s,
            None if one.artifacts_nbytes is None else with_unit(one.artifacts_nbytes),
            one.stopped,
        )
        for one in starts
    ]
    columns = ["start", *LAYERS, "s", "CPU s", "artifacts", "stopped"]
    return Table(columns, rows, align="lllrrrl")


def keys(found: Restarts, names: Sequence[str]) -> Table:
    """Why each of these starts was answered so: the parts of AOTAutograd's key that are not the cold start's, the
    layers' answers, and how many files of machine code had to be made.

    Raises KeyError for a name that no start has.
    """
    rows = []
    for name in names:
        one = found.starts[name]
        parts = ", ".join(f"{count} of {kind}" for kind, count in found.differing(name).items())
        rows.append((name, parts or ("none" if one.key_parts else "no key was made"), *_words(one), one.built))
    return Table(["start", "other parts of its key", *LAYERS, "machine code made"], rows, align="llllr")


def _counts(one: Restart, layer: str) -> str:
    said = {answer: count for answer, count in (one.found or {}).get(layer, {}).items() if count}
    return ", ".join(f"{count} {answer}" for answer, count in said.items()) or one.said(layer)


def _words(one: Restart) -> list[str]:
    return [one.said(layer) for layer in LAYERS]


def _told(one: Restart, taken: float) -> str:
    return f"{one.name} {one.stopped or f'{taken:.3g}'} ({', '.join(_words(one))})"
