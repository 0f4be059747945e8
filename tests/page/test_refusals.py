"""What cannot be shown, asked or drawn is refused where it is written: one line a case."""

import json

import pytest

from compile_lab.page import Headline, Part, Prediction, Split, Verdict, axes, bars, dots, live
from compile_lab.page.axes import Range, Rows
from compile_lab.page.canvas import Canvas, round_ticks
from compile_lab.page.explore import Explorer
from compile_lab.page.figures import Drawing, Figure, Plot, Series, lines
from compile_lab.page.marks import Axis, Cell, Node, Row, cells, dotted, nodes, segments
from compile_lab.page.tables import Code, Table
from compile_lab.simulator import explored_view

AXES = {"cause": ["print", ".item()"], "version": ["broken", "mended"]}
RATIO = {"low": 0.1, "high": 10, "log": True, "unit": "×"}
HERE = ("On a CPU", "It took 2 of 3.")
OWN = Range(1, 8, start=2, where=("model", "my own"))
ROWS = Rows("F0 B0 | F0 B0")
STEP = [Row("eager", {"forward": 3.0, "backward": 6.0}), Row("compiled", {"forward": 2.0})]
LIVE = {"schedule": ["GPipe"], "compared_with": ["1F1B"], "ranks": Range(1, 16, start=4)}


def panel(cause, version):
    return cause


def of_a_notebook(a):
    return a


of_a_notebook.__module__ = "__main__"


def explorer(**stored):
    return Explorer("T", LIVE, explored_view.pipeline, live=True, stored=stored)


def asked(measured=1, **options):
    return Prediction("How many?", measured, **options)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        *((lambda e=e: Range(*e), "low ≤ start ≤ high") for e in ((2, 1, 1, 1), (0, 1, 0, 0), (0, float("inf"), 0, 1))),
        (lambda: Range(0, 8, 1, log=True), "above 0"),
        *((lambda v=v: axes.taken("ranks", Range(1, 8, start=4), v), "'ranks'") for v in ("4", True, float("nan"))),
        *((lambda o=o: axes.taken("order", ROWS, o), "its own") for o in ("F0 B0", "F0 F0 | B0 B0", "F0 B0 | F0", 3)),
        (lambda: Rows("F0 | "), "each row has blocks"),
        # an Explorer, and what is asked of it
        (lambda: Explorer("T", {}, panel), "no axes"),
        (lambda: Explorer("T", {"cause": []}, panel), "'cause' has no options"),
        (lambda: Explorer("T", {"cause": ["a", "b", "a"]}, panel), "offers 'a' more than once"),
        (lambda: Explorer("T", {"cause": ["a", 2]}, panel), "of type Mapping"),
        (lambda: Explorer("T", {"cause": "ab"}, panel), "not one text 'ab'"),
        (lambda: Explorer("T", {"the cause": ["a"]}, panel), "identifier"),
        (lambda: Explorer("T", {"model": ("7 B",), "layers": OWN}, str), "no option 'my own'; it has '7 B'"),
        (lambda: Explorer("T", {"layers": OWN}, str), "no axis 'model'"),
        (lambda: Explorer("T", AXES, panel).show(version="new"), "no option 'new'; it has 'broken', 'mended'"),
        (lambda: Explorer("T", AXES, panel).show(kind="broken"), "no axis 'kind'; the axes are 'cause', 'version'"),
        (lambda: Explorer("T", {"a": ["1"]}, lambda a: ["text", 3]).show(), "for a = 1 it has a int"),
        (lambda: Explorer("T", {"a": ["1"]}, lambda a: a, live=True), "top of a module"),
        *((lambda f=f: live.address_of(f), "top of a module") for f in (of_a_notebook, json.JSONEncoder().encode)),
        (lambda: explorer(rank=[4]), "no axis 'rank'"),
        (lambda: explorer(ranks=["4"]), "takes a number, not '4'"),
        (lambda: explorer(compared_with=["ZBV"]), "no option 'ZBV'"),
        # a Prediction, a verdict, a number
        (lambda: asked(), "neither choices nor a number"),
        (lambda: asked(low=0, high=4, log=True), "above 0"),
        (lambda: asked(low=4, high=4), "goes upwards"),
        (lambda: asked(low=4, high=8), "measured is 1"),
        (lambda: asked("b", choices=["a", "b"], guessed="c"), "guessed is 'c'"),
        (lambda: asked(guessed="a", **RATIO), "guessed is 'a'"),
        (lambda: Split("C20", "Fusing is faster", Part("In fp32", True, *HERE)), "1 parts"),
        (lambda: Verdict("C07", "Printing breaks the graph", True, "Here", " "), "evidence"),
        (lambda: Part("Printing\nbreaks", True, *HERE), "claim"),
        (lambda: Verdict("C07", "Printing breaks the graph", "refined", *HERE), "holds"),
        (lambda: Headline("2×", " ", "here"), "what it is"),
        # marks
        (lambda: segments(STEP, title=" "), "has a title"),
        (lambda: segments([], title="None."), "no rows"),
        (lambda: segments(STEP, Axis(until=5), title="Off."), "is not on an axis from 0 to 5"),
        (lambda: segments(STEP, title="Colours.", colours={"forward": "blue"}), "'backward' has no colour"),
        (lambda: segments(STEP, title="Pink.", colours={"forward": "pink", "backward": "blue"}), "no colour 'pink'"),
        (lambda: dotted([Row("a", {str(at): at for at in range(8)})], Axis(), title="Eight."), "8 series"),
        (lambda: dots(["a", "b"], {"x": [1]}, unit="", title="One short."), "1 values for 2 places"),
        (lambda: cells({"g": [[Cell("0")]]}, rows=["a", "b"], title="A row short."), "has 1 rows"),
        (lambda: nodes([Node("a", 0)], [("a", "z")], title="Lost."), "'z'"),
        (lambda: nodes([Node("a", 0), Node("a", 1)], [], title="Twice."), "one name"),
        (lambda: bars([], value_title="ms", title="None."), "at least one Series"),
        # what is drawn
        (lambda: Canvas(width=0), "width=0"),
        (lambda: round_ticks(0), "above 0"),
        (lambda: Figure(Plot([], {}), " "), "needs alt"),
        (lambda: Drawing("<svg></svg>", ""), "needs alt"),
        (lambda: Series("s", ["a"], [1.0, 2.0]), "lengths"),
        (lambda: Series("s", ["a"], [1.0], low=[0.5]), "both low and high"),
        (lambda: Series("s", ["a"], [1.0], low=[2.0], high=[3.0]), "outside its spread"),
        (lambda: lines(Series("s", [0], [1.0]), x_title="n", y_title="ms", title=".", log_x=True), "positive"),
        (lambda: lines(Series("s", ["a"], [1.0]), x_title="n", y_title="ms", title="."), "need numbers"),
        *((lambda r=r: Table(["x", "y"], r), "columns") for r in ([["a"]], ["ab"])),
        *((lambda a=a: Table(["x", "y"], [["a", "b"]], align=a), "columns") for a in ("l", "lx")),
        (lambda: Code("a\nb\nc", mark={4}), "4.*3 lines"),
        (lambda: Code("a", language="klingon"), "klingon"),
    ],
)
def test_what_cannot_be_shown_is_refused_by_name(call, word):
    with pytest.raises((ValueError, TypeError), match=word):
        call()
