"""What the rings prove of a chapter: a reader sees what its page stores, and its cells run twice in a row.

The second is for `make test-all`. notebooks/conftest.py proves both for every notebook. Here it is shown to find what
is wrong with one: a cell for each kind of that, and beside it one that is sound.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from compile_lab.page.explore import PUBLISH

ROOT = Path(__file__).resolve().parents[2]
PASSED = {"system-out", "system-err", "properties"}
"""What stands in a report on a test, and is no failure."""

pytestmark = pytest.mark.processes


def written(text, name="stdout"):
    return new_output("stream", name=name, text=text)


def shown(data, kind="display_data", **metadata):
    return new_output(kind, {"text/plain": data} if isinstance(data, str) else data, metadata=metadata)


def value(data):
    return shown(data, "execute_result")


def cell(source, *outputs, tags=(), number=1):
    return new_code_cell(source, outputs=list(outputs), metadata={"tags": list(tags)}, execution_count=number)


def ignored(source, *outputs):
    return cell(source, *outputs, tags=["nbval-ignore-output"])


def display(*all_data, **options):
    """Code that displays each."""
    return "\n".join(f"display({data!r}, raw=True, **{options!r})" for data in all_data)


def figure(height, **html):
    return {"application/vnd.plotly.v1+json": {"data": [{"y": [1, height]}], "layout": {}}, **html}


def html(text):
    return {"text/html": f"<b>{text}</b>", "text/plain": "words"}


def picture(colour):
    return {"image/png": f"iVBORw0KGgo{colour}=", "text/plain": "picture"}


PARTS = f"print(1)\n{display(html('two'))}\nprint(3)"
TASK = "import asyncio\nasync def fails():\n    raise ValueError('lost')\ntask = asyncio.create_task(fails())"
AWAITED = f"{TASK}\ntry:\n    await task\nexcept ValueError:\n    print('caught')"
CLEARED = "from IPython.display import clear_output\nprint('gone')\nclear_output()\nprint('left')"
ISOLATED = display(html("frame"), metadata={"text/html": {"isolated": True}})
FIGURE = {"text/html": "<p>a figure</p>"}
MAGIC = "%not_a_magic\nprint('behind it')"


def program(text):
    return f"import subprocess\n_ = subprocess.run(['sh', '-c', 'echo {text}'])"


def named(name):
    return f"from IPython.display import update_display\n_ = {display(html('old'), display_id=name)}"


def replaced(name):
    return f"update_display({html('new')!r}, raw=True, display_id={name!r})"


def later(what, **options):
    """Code whose thread goes on when its last line has run."""
    lines = "import threading", "never = threading.Event()", "def later():", "    never.wait(0.1)", f"    {what}"
    return "\n".join([*lines, f"threading.Thread(target=later, **{options}).start()"])


KINDS = {
    "words": (cell("print('a')", written("a\n")), cell("print('a')", written("b\n")), "text differs. Stored: 'b"),
    "stream": (cell("print(2)", written("2\n")), cell("print(2)", written("2\n", "stderr")), "gone: stderr '2"),
    "order of parts": (
        cell(PARTS, written("1\n"), shown(html("two")), written("3\n")),
        cell(PARTS, written("1\n3\n"), shown(html("two"))),
        "now: stdout, display (text/html, text/plain), stdout",
    ),
    "order of displays": (
        cell(display(html("one"), html("two")), shown(html("one")), shown(html("two"))),
        cell(display(html("one"), html("two")), shown(html("two")), shown(html("one"))),
        "outputs 1 and 2 are exchanged",
    ),
    "order of kinds": (
        cell(display(html("one"), FIGURE), shown(html("one")), shown(FIGURE)),
        cell(display(html("one"), FIGURE), shown(FIGURE), shown(html("one"))),
        "another order (stored: display (text/html), display (text/html, text/plain)",
    ),
    "picture": (
        cell(display(picture("red")), shown(picture("red"))),
        cell(display(picture("red")), shown(picture("blu"))),
        "image/png is another picture",
    ),
    "HTML": (
        cell(display(html("one")), shown(html("one"))),
        cell(display(html("one")), shown(html("two"))),
        "text/html differs. Stored: '<b>two</b>'",
    ),
    "data of a figure": (
        cell(display(figure(2, **FIGURE)), shown(figure(2, **FIGURE))),
        cell(display(figure(2, **FIGURE)), shown(figure(3, **FIGURE))),
        "data[0].y[1] differs. Stored: 3 Now: 2",
    ),
    "figure that a page can show": (
        cell(display(figure(4, **FIGURE)), shown(figure(4, **FIGURE))),
        cell(display(figure(4)), shown(figure(4))),
        "a figure without text/html",
    ),
    "value": (cell("'one'", value("'one'")), cell("'one'", shown("'one'")), "gone: display (text/plain)"),
    "metadata": (
        cell(ISOLATED, shown(html("frame"), **{"text/html": {"isolated": True}})),
        cell(ISOLATED, shown(html("frame"))),
        "metadata differs",
    ),
    "gone": (cell("x = 1"), cell("x = 1", written("x\n")), "gone: stdout 'x"),
    "new": (cell("print(4)", written("4\n")), cell("print(4)"), "new: stdout '4"),
    "number": (
        cell("0xff80ff80\nhex(0xff80ff80)", value("'0xff80ff80'")),
        cell("0xff80ff80\nhex(0xff80ff80)", value("'0xff80ff81'")),
        "Stored: \"'0xff80ff81'\"",
    ),
    "address": (
        cell("object()", value("<object at 0x7f0011223344>")),
        cell("object()", value("<objekt at 0x7f0011223344>")),
        "text/plain differs",
    ),
    "clear_output": (cell(CLEARED, written("left\n")), cell(CLEARED, written("gone\nleft\n")), "text differs"),
    "update_display": (
        cell(f"{named('own')}\n{replaced('own')}", shown(html("new"))),
        cell(f"{named('own')}\n{replaced('own')}", shown(html("old"))),
        "Stored: '<b>old</b>' Now: '<b>new</b>'",
    ),
    "update_display by a later cell": (
        [cell(named("other"), shown(html("new"))), cell(replaced("other"))],
        [cell(named("other"), shown(html("old"))), cell(replaced("other"))],
        "as a later cell replaces it: output 1",
    ),
    "carriage return": (
        cell("print('old\\rnew')", written("old\rnew\n")),
        cell("print('old\\rnew')", written("odd\rnew\n")),
        "text differs. Stored: 'odd",
    ),
    "program": (cell(program("hi"), written("hi\n")), cell(program("hi")), "new: stdout 'hi"),
    "program, error stream": (
        cell(program("ho >&2"), written("ho\n", "stderr")),
        cell(program("ho >&2"), written("ho\n")),
        "new: stderr 'ho",
    ),
    "program between two lines": (
        cell(f"print(5)\n{program(6)}\nprint(7)", written("5\n6\n7\n")),
        cell(f"print(5)\n{program(6)}\nprint(7)", written("5\n7\n6\n")),
        "stdout: text differs",
    ),
    "thread": (cell(later("print('late')"), written("late\n")), cell(later("print('late')")), "new: stdout 'late"),
    "thread in the background": (
        cell(later("print('late')", daemon=True), written("late\n")),
        cell(later("print('late')", daemon=True)),
        "new: stdout 'late",
    ),
    "task": (cell(AWAITED, written("caught\n")), cell(TASK), "ValueError('lost')"),
    "error": (
        cell(
            "1 / 0",
            new_output("error", ename="ZeroDivisionError", evalue="division by zero"),
            tags=["raises-exception"],
        ),
        cell(
            "1 / 0", new_output("error", ename="ZeroDivisionError", evalue="division by one"), tags=["raises-exception"]
        ),
        "error: text differs",
    ),
    "error that does not come": (
        cell("x = 2", tags=["raises-exception"]),
        cell("x = 2", new_output("error", ename="KeyError", evalue="x"), tags=["raises-exception"]),
        "gone: error 'KeyError: x'",
    ),
    "never run": (cell("", number=None), cell("x = 3", number=None), "was never run"),
    "ignored: kind": (
        ignored("print(5.1)", written("5.2\n")),
        ignored("print(5.1)", shown("5.1")),
        "gone: display (text/plain)",
    ),
    "ignored: how many": (
        ignored(display(html("1 ms"), html("2 ms")), shown(html("3 ms")), shown(html("4 ms"))),
        ignored(display(html("1 ms"), html("2 ms")), shown(html("3 ms"))),
        "new: display (text/html, text/plain) '",
    ),
    "ignored: nothing": (ignored("print(6)\nprint(7)", written("8\n")), ignored("print(6)"), "new: stdout"),
    "ignored: magic": (ignored("%pwd", value("'/home'")), ignored(MAGIC, written("x\n")), "stopped by UsageError"),
    "ignored: thread": (
        ignored(later("print(9)"), written("10\n")),
        ignored(f"import sys\nprint('1 ms', file=sys.stderr)\n{later('1 / 0')}", written("2 ms\n", "stderr")),
        "prints an error that is not stored",
    ),
}
"""What a page shows, each in a cell that is sound and in one that is not, and what is said of that."""

AT_FIRST = "first = 'COMPILE_LAB_PUBLISH' in __import__('os').environ\n"
AGAIN = {
    "exception": (f"{AT_FIRST}assert first", "stopped by AssertionError"),
    "magic": (f"{AT_FIRST}if not first: get_ipython().run_line_magic('not_a_magic', '')", "stopped by UsageError"),
    "thread": (later(f"{AT_FIRST.strip()}; print('' if first else 1 / 0, end='')"), "ZeroDivisionError"),
    "task": (f"{AT_FIRST}async def maybe():\n    assert first, 'lost'\n_ = asyncio.create_task(maybe())", "lost"),
    "carriage return": (
        f"{AT_FIRST}if not first: print('Traceback (most recent call last)\\rfine')",
        "prints an error",
    ),
}
"""What fails only the second time, and what is said of that."""


@pytest.fixture(scope="module")
def validated(tmp_path_factory):
    """What nbval, with the book's own settings, says of the cells that fail: by notebook and cell."""
    root = tmp_path_factory.mktemp("book")
    said_in = root / "said.xml"
    (root / "notebooks").mkdir()
    for each in ("conftest.py", "notebooks/conftest.py"):
        shutil.copy(ROOT / each, root / each)
    environment = {name: value for name, value in os.environ.items() if name != PUBLISH}

    def run(*options, **notebooks):
        paths = [root / f"notebooks/{name}.ipynb" for name in notebooks]
        for path, cells in zip(paths, notebooks.values(), strict=True):
            nbformat.write(new_notebook(cells=cells), path)
        settings = f"-c pyproject.toml --rootdir={root} -p no:cacheprovider -p no:xdist -q --junitxml={said_in}"
        command = [sys.executable, "-m", "pytest", "--nbval", "--color=no", *settings.split(), *options, *paths]
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert ran.returncode in (0, 1), ran.stdout
        said = {name: {} for name in notebooks}
        for case in ElementTree.parse(said_in).iter("testcase"):
            notebook = case.get("classname").split(".")[-2]
            said[notebook] |= {case.get("name"): each.text for each in case if each.tag not in PASSED}
        return said

    return run


@pytest.fixture(scope="module")
def said(validated):
    return validated(
        "--ring=all",
        sound=listed(sound for sound, _, _ in KINDS.values()),
        planted=[*listed(planted for _, planted, _ in KINDS.values()), *(cell(source) for source, _ in AGAIN.values())],
        dead=[cell("import os\nos._exit(1)"), cell("x = 1")],
        altered=altered("13_overlap"),
    )


def altered(name):
    """A chapter up to the first output that is compared, to which a word is added."""
    chapter = nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4)
    cells = [each for each in chapter.cells if each.cell_type == "code"]
    compared = [each for each in cells if each.outputs and "nbval-ignore-output" not in each.metadata.get("tags", [])]
    compared[0].outputs[-1]["data"]["text/plain"] += " altered"
    return cells[: cells.index(compared[0]) + 1]


def listed(groups):
    return [each for group in groups for each in (group if isinstance(group, list) else [group])]


def test_a_page_that_shows_what_runs_is_sound_the_first_time_and_again(said):
    assert said["sound"] == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_that_shows_something_else_is_found(said, kind):
    before = list(KINDS).index(kind)
    number = len(listed(planted for _, planted, _ in list(KINDS.values())[:before]))
    assert KINDS[kind][2] in said["planted"][f"Cell {number}"]


def test_no_other_cell_is_to_blame(said):
    """Of those that replace what an earlier one shows, or only follow one that fails."""
    assert len([name for name in said["planted"] if not name.endswith("again")]) == len(KINDS)


@pytest.mark.parametrize("kind", AGAIN)
def test_what_fails_only_the_second_time_is_found(said, kind):
    name = f"Cell {len(listed(planted for _, planted, _ in KINDS.values())) + list(AGAIN).index(kind)}"
    assert name not in said["planted"] and AGAIN[kind][1] in said["planted"][f"{name} again"]


def test_a_kernel_that_dies_fails_its_cell_and_all_behind_it(said):
    assert list(said["dead"]) == ["Cell 0", "Cell 1", "Live again", "Cell 0 again", "Cell 1 again"]
    assert "the kernel died in Cell 0" in said["dead"]["Cell 0"]
    assert "did not run: the kernel died in Cell 0" in said["dead"]["Cell 1"]


def test_a_cell_that_runs_out_of_time_fails_whatever_it_catches_and_all_behind_it_fail(validated):
    endless = "import time\nwhile True:\n    try:\n        time.sleep(900)\n    except BaseException:\n        pass"
    said = validated("--nbval-cell-timeout=0.1", endless=[cell(endless), cell("x = 1")])["endless"]
    assert "Cell 0 ran into the time limit of 0.1 s" in said["Cell 0"]
    assert "did not run: Cell 0 ran into the time limit" in said["Cell 1"]


def test_an_output_of_a_chapter_altered_by_hand_is_found(said):
    [name, *_], [text, *_] = zip(*said["altered"].items(), strict=True)
    assert name == f"Cell {len(altered('13_overlap')) - 1}" and " altered" in text


def test_make_test_and_what_calls_it_compare_strictly():
    settings, command = (ROOT / "pyproject.toml").read_text(), (ROOT / "Makefile").read_text()
    assert "pytest --nbval " in command and "--nbval-lax" not in settings + command
