"""What the reader of an explorer can choose: one of several options, a number, or an order of blocks."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Value = str | int | float


@dataclass(frozen=True)
class Range:
    """An axis of numbers: a slider from `low` to `high` in steps of `step`, at first at `start`, all in `unit`.

    The ends are the slider's own: where a reader can type, any number can be given. A panel gets a whole number as an
    int, whatever the step. With `where`, the name of another axis and one of its options, it is asked only there.
    With `log` the slider's way from 1 to 10 is as long as that from 10 to 100; its values are multiples of `step`.
    Raises ValueError for ends, a start or a step that make no slider.
    """

    low: float
    high: float
    start: float
    step: float = 1
    unit: str = ""
    where: tuple[str, str] | None = None
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and self.low <= self.start <= self.high < math.inf and self.step > 0):
            raise ValueError(f"{self}: a slider needs low ≤ start ≤ high, and a step above 0")
        if self.log and self.low <= 0:
            raise ValueError(f"{self}: a logarithm needs numbers above 0, and low is none")

    @property
    def grid(self) -> list[float]:
        """Two dozen values for each factor of ten, multiples of the step, the ends and the start among them."""
        places = range(math.ceil(24 * math.log10(self.high / self.low)) + 1)
        near = (self.low * 10 ** (place / 24) for place in places)
        stepped = {round(round(value / self.step) * self.step, 10) for value in near}
        return sorted({each for each in stepped if self.low <= each <= self.high} | {self.low, self.start, self.high})


@dataclass(frozen=True)
class Rows:
    """An axis of arrangements: rows of blocks, as in ``"F0 F1 B0 | F0 B0 F1"``, each of whose order the reader changes.

    In the page blocks are dragged, or moved with the arrow keys; the panel marks them, by `Canvas.block`. Raises
    ValueError for a row without blocks.
    """

    start: str

    def __post_init__(self) -> None:
        if not all(row.split() for row in self.start.split("|")):
            raise ValueError(f"{self}: each row has blocks, divided by spaces; rows are divided by |")


Axis = tuple[str, ...] | Range | Rows


def checked(name: str, axis: Sequence[str] | Range | Rows) -> Axis:
    """The axis, its options as a tuple. ValueError or TypeError where it offers no clear choice."""
    if not name.isidentifier():
        raise ValueError(f"the axis {name!r} is handed over as a keyword argument: name it with a Python identifier")
    if isinstance(axis, Range | Rows):
        return axis
    if isinstance(axis, str):
        raise TypeError(f"axis {name!r}: options are a list of texts, not one text {axis!r}")
    options = tuple(axis)
    if not options:
        raise ValueError(f"axis {name!r} has no options: there is nothing to choose")
    if twice := [option for option in dict.fromkeys(options) if options.count(option) > 1]:
        raise ValueError(f"axis {name!r} offers {twice[0]!r} more than once")
    return options


def applies(axis: Axis, choice: Mapping[str, Value]) -> bool:
    """Does the axis matter where the others stand so?"""
    where = axis.where if isinstance(axis, Range) else None
    return where is None or choice[where[0]] == where[1]


def first(axis: Axis) -> Value:
    """Where the axis stands before anybody chose."""
    if isinstance(axis, Rows):
        return axis.start
    return whole(axis.start) if isinstance(axis, Range) else axis[0]


def taken(name: str, axis: Axis, value: Value) -> Value:
    """The value as a panel gets it. ValueError, with what there is, for an option or a number that the axis has not."""
    if isinstance(axis, Range):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"axis {name!r} takes a number, not {value!r}")
        return whole(value)
    if isinstance(axis, Rows):
        if _blocks(value) != _blocks(axis.start):
            raise ValueError(f"axis {name!r} has other blocks than {value!r}: each row keeps its own, in any order")
        return value
    if value not in axis:
        raise ValueError(f"axis {name!r} has no option {value!r}; it has {comma_list(axis)}")
    return value


def _blocks(rows: Value) -> list[list[str]]:
    return [sorted(row.split()) for row in str(rows).split("|")]


def whole(value: float) -> float:
    """A number without a fraction as an int: what JSON makes of it on its way from the reader's page."""
    return int(value) if float(value).is_integer() else value


def text(axis: Axis, value: Value) -> str:
    """The value as a reader reads it, with the axis's unit."""
    return f"{value:.6g} {axis.unit}".rstrip() if isinstance(axis, Range) else str(value)


def label(name: str) -> str:
    return name.replace("_", " ")


def comma_list(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


def choice_text(choice: Mapping[str, Value]) -> str:
    """A choice in words: ``ranks = 4, schedule = 1F1B``."""
    return ", ".join(f"{label(name)} = {value}" for name, value in choice.items())
