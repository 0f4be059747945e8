"""A package in pictures: what is in the file, how soon each way answers, and what nobody looks at."""

from collections.abc import Sequence

from compile_lab.page.figures import Drawing, Series
from compile_lab.page.marks import bars
from compile_lab.page.tables import Table
from compile_lab.page.units import number, rounded, with_unit

from .package import Package, StartUp, UncheckedInput

OUTCOMES = {"equal to eager": "✓ equal to eager", "wrong, without an error": "✗ wrong, without an error"}


def parts(package: Package) -> Table:
    """Bytes of the file by kind, and what it says it is for."""
    rows = [[kind, with_unit(nbytes)] for kind, nbytes in package.parts.items()]
    said = ", ".join(value for value in package.written_for.values() if value)
    return Table(["in the file", "size"], [*rows, ["labelled for", said]])


def started(ways: Sequence[StartUp], provenance: object | None = None) -> Drawing:
    """Seconds from the end of the imports to the first answer of a new process, a bar a way; who failed stands in the
    caption.

    ValueError where no way came to an answer.
    """
    done = [(one, one.ready_s) for one in ways if one.ready_s is not None]
    if not done:
        raise ValueError("nothing to draw: give at least one StartUp that came to its first answer")
    ends = dict.fromkeys(end(done, key=lambda each: each[1]) for end in (min, max))
    series = Series("first answer", [one.way for one, _ in done], [rounded(ready_s, 3) for _, ready_s in done])
    failed = [f"{one.way}: {one.stopped}" for one in ways if one.stopped]
    caption = "; ".join(["From a new process, its imports done, to the first answer", *failed])
    rows = [
        (
            one.way,
            _seconds(ready_s),
            one.cpu_s and round(one.cpu_s, 1),
            with_unit(one.peak_nbytes) if one.peak_nbytes else None,
            one.call_us and round(one.call_us),
        )
        for one, ready_s in done
    ]
    columns = ["way", "first answer after", "CPU s, imports too", "memory", "µs a later call"]
    return bars(
        series,
        value_title="to the first answer, s",
        title=f"The package answers after {' and '.join(f'{_seconds(ready_s)} {one.way}' for one, ready_s in ends)}.",
        caption=caption,
        provenance=provenance,
        table=Table(columns, rows),
    )


def _seconds(seconds: float) -> str:
    return f"{number(rounded(seconds, 3))} s" if seconds >= 0.1 else f"{number(rounded(seconds * 1e3, 3))} ms"


def looked(cases: Sequence[UncheckedInput]) -> Table:
    """What came of inputs that a package was not made for, without and with its own checks."""
    rows = [[one.what, *(OUTCOMES.get(outcome, outcome) for outcome in (one.unchecked, one.checked))] for one in cases]
    return Table(["given", "package as it is", "AOTI_RUNTIME_CHECK_INPUTS=1"], rows)
