"""What restarts found, as it is seen: a line a start, what each cache said, and the seconds that it took."""

from collections.abc import Sequence

from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, segments, short
from compile_lab.page.tables import Table
from compile_lab.page.units import with_unit

from .restarts import LAYERS, Restart, Restarts

COLOURS = {"hit, hit": "green", "miss, hit": "orange", "miss, miss": "vermillion", "not queried, not queried": "grey"}


def picture(found: Restarts, names: Sequence[str] = (), caption: str = "", cpu: bool = False) -> Drawing:
    """A row for each start, or for those named: the time until the first step is done, on the wall or, with ``cpu``, of
    work, in the colour of what the two caches answered.

    Raises ValueError for a name that no start has.
    """
    for name in names:
        if name not in found.starts:
            raise ValueError(f"no start is called {name!r}; there are {', '.join(found.starts)}")
    chosen = [found.starts[name] for name in names or found.starts]
    answers = [", ".join(_words(one)) for one in chosen]
    times = [(one.cpu_s if cpu else one.seconds) or 0.0 for one in chosen]
    hits = [taken for taken, said in zip(times, answers, strict=True) if said == "hit, hit"]
    shown = " to ".join(dict.fromkeys(short(end) for end in (min(hits), max(hits)))) if hits else ""
    return segments(
        [
            Row(one.name, {_layers(said): taken}, "stopped" if one.stopped else None)
            for one, said, taken in zip(chosen, answers, times, strict=True)
        ],
        Axis("CPU seconds" if cpu else "seconds", "s"),
        title=f"The first start takes {short(times[0])} s"
        + f"; {'those that hit both caches take' if len(hits) > 1 else 'with a hit in both caches it is'} {shown} s"
        * bool(hits)
        + ".",
        caption=caption
        or f"{found.what}: {'work' if cpu else 'time'} until the first step is done, minus that of a later step",
        colours={_layers(said): COLOURS.get(said, "purple") for said in sorted(answers)},
        provenance=found.provenance,
        table=table(chosen),
    )


def table(starts: Sequence[Restart]) -> Table:
    """One row for each start, its counters in full."""
    stopped = any(one.stopped for one in starts)
    rows = [
        (
            one.name,
            *(f"{_counts(one, layer)}" for layer in LAYERS),
            one.seconds,
            one.cpu_s,
            None if one.artifacts_nbytes is None else with_unit(one.artifacts_nbytes),
            *[one.stopped] * stopped,
        )
        for one in starts
    ]
    columns = ["start", *LAYERS, "s", "CPU s", "artifacts", *["stopped"] * stopped]
    return Table(columns, rows, align="lllrrr" + "l" * stopped)


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
    return ", ".join(f"{count} {answer}" for answer, count in said.items()) or one.answer(layer)


def _words(one: Restart) -> list[str]:
    return [one.answer(layer) for layer in LAYERS]


def _layers(answers: str) -> str:
    above, below = answers.split(", ")
    return f"AOTAutograd {above}, Inductor {below}"
