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


def shown(data, output="display_data", **metadata):
    return new_output(output, {"text/plain": data} if isinstance(data, str) else data, metadata=metadata)


def value(data):
    return shown(data, "execute_result")


def cell(source, *outputs, tags=(), number=1):
    return new_code_cell(source, outputs=list(outputs), metadata={"tags": list(tags)}, execution_count=number)


def kind(source, sound, planted, said, **options):
    """A cell with the outputs that its source has, one with others, and what is said of those."""
    return cell(source, *sound, **options), cell(source, *planted, **options), said


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


IGNORED = {"tags": ["nbval-ignore-output"]}
RAISES = {"tags": ["raises-exception"]}
NUMBER, CARRIAGE_RETURN = "0xff80ff80\nhex(0xff80ff80)", "print('old\\rnew')"
ONE, TWO, OLD, NEW = (shown(html(text)) for text in ("one", "two", "old", "new"))
BETWEEN = f"print(5)\n{program(6)}\nprint(7)"
SWAPPED = f"{named('own')}\n{replaced('own')}"


def division(by):
    return new_output("error", ename="ZeroDivisionError", evalue=f"division by {by}")


KINDS = {
    "words": kind("print('a')", [written("a\n")], [written("b\n")], "text differs. Stored: 'b"),
    "stream": kind("print(2)", [written("2\n")], [written("2\n", "stderr")], "gone: stderr '2"),
    "order of parts": kind(
        PARTS,
        [written("1\n"), TWO, written("3\n")],
        [written("1\n3\n"), TWO],
        "now: stdout, display (text/html, text/plain), stdout",
    ),
    "order of displays": kind(
        display(html("one"), html("two")), [ONE, TWO], [TWO, ONE], "outputs 1 and 2 are exchanged"
    ),
    "order of kinds": kind(
        display(html("one"), FIGURE),
        [ONE, shown(FIGURE)],
        [shown(FIGURE), ONE],
        "another order (stored: display (text/html), display (text/html, text/plain)",
    ),
    "picture": kind(
        display(picture("red")), [shown(picture("red"))], [shown(picture("blu"))], "image/png is another picture"
    ),
    "data of a figure": kind(
        display(figure(2, **FIGURE)),
        [shown(figure(2, **FIGURE))],
        [shown(figure(3, **FIGURE))],
        "data[0].y[1] differs. Stored: 3 Now: 2",
    ),
    "figure that a page can show": (
        cell(display(figure(4, **FIGURE)), shown(figure(4, **FIGURE))),
        cell(display(figure(4)), shown(figure(4))),
        "a figure without text/html",
    ),
    "value": kind("'one'", [value("'one'")], [shown("'one'")], "gone: display (text/plain)"),
    "metadata": kind(
        ISOLATED,
        [shown(html("frame"), **{"text/html": {"isolated": True}})],
        [shown(html("frame"))],
        "metadata differs",
    ),
    "number": kind(NUMBER, [value("'0xff80ff80'")], [value("'0xff80ff81'")], "Stored: \"'0xff80ff81'\""),
    "address": kind(
        "object()",
        [value("<object at 0x7f0011223344>")],
        [value("<objekt at 0x7f0011223344>")],
        "text/plain differs",
    ),
    "clear_output": kind(CLEARED, [written("left\n")], [written("gone\nleft\n")], "text differs"),
    "update_display": kind(SWAPPED, [NEW], [OLD], "Stored: '<b>old</b>' Now: '<b>new</b>'"),
    "update_display by a later cell": (
        [cell(named("other"), NEW), cell(replaced("other"))],
        [cell(named("other"), OLD), cell(replaced("other"))],
        "as a later cell replaces it: output 1",
    ),
    "carriage return": kind(
        CARRIAGE_RETURN, [written("old\rnew\n")], [written("odd\rnew\n")], "text differs. Stored: 'odd"
    ),
    "program, error stream": kind(program("ho >&2"), [written("ho\n", "stderr")], [written("ho\n")], "new: stderr 'ho"),
    "program between two lines": kind(BETWEEN, [written("5\n6\n7\n")], [written("5\n7\n6\n")], "stdout: text differs"),
    "thread": kind(later("print('late')"), [written("late\n")], [], "new: stdout 'late"),
    "thread in the background": kind(later("print('late')", daemon=True), [written("late\n")], [], "new: stdout 'late"),
    "task": (cell(AWAITED, written("caught\n")), cell(TASK), "ValueError('lost')"),
    "error": kind("1 / 0", [division("zero")], [division("one")], "error: text differs", **RAISES),
    "error that does not come": kind("x = 2", [], [division("zero")], "gone: error 'ZeroDivisionError", **RAISES),
    "never run": (cell("", number=None), cell("x = 3", number=None), "was never run"),
    "ignored: kind": kind("print(5.1)", [written("5.2\n")], [shown("5.1")], "gone: display (text/plain)", **IGNORED),
    "ignored: how many": kind(
        display(html("1 ms"), html("2 ms")), [ONE, TWO], [ONE], "new: display (text/html, text/plain) '", **IGNORED
    ),
    "ignored: magic": (
        cell("%pwd", value("'/home'"), **IGNORED),
        cell(MAGIC, written("x\n"), **IGNORED),
        "stopped by UsageError",
    ),
    "ignored: thread": (
        cell(later("print(9)"), written("10\n"), **IGNORED),
        cell(f"import sys\nprint('1 ms', file=sys.stderr)\n{later('1 / 0')}", written("2 ms\n", "stderr"), **IGNORED),
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
    )


def listed(groups):
    return [each for group in groups for each in (group if isinstance(group, list) else [group])]


def test_a_page_that_shows_what_runs_is_sound_the_first_time_and_again(said):
    assert said["sound"] == {}


@pytest.mark.parametrize("name", KINDS)
def test_a_page_that_shows_something_else_is_found(said, name):
    before = list(KINDS).index(name)
    number = len(listed(planted for _, planted, _ in list(KINDS.values())[:before]))
    assert KINDS[name][2] in said["planted"][f"Cell {number}"]


def test_no_other_cell_is_to_blame(said):
    """Of those that replace what an earlier one shows, or only follow one that fails."""
    assert len([name for name in said["planted"] if not name.endswith("again")]) == len(KINDS)


@pytest.mark.parametrize("again", AGAIN)
def test_what_fails_only_the_second_time_is_found(said, again):
    name = f"Cell {len(listed(planted for _, planted, _ in KINDS.values())) + list(AGAIN).index(again)}"
    assert name not in said["planted"] and AGAIN[again][1] in said["planted"][f"{name} again"]


def test_a_kernel_that_dies_fails_its_cell_and_all_behind_it(said):
    assert list(said["dead"]) == ["Cell 0", "Cell 1", "Live again", "Cell 0 again", "Cell 1 again"]
    assert "the kernel died in Cell 0" in said["dead"]["Cell 0"]
    assert "did not run: the kernel died in Cell 0" in said["dead"]["Cell 1"]


def test_a_cell_that_runs_out_of_time_fails_whatever_it_catches_and_all_behind_it_fail(validated):
    endless = "import time\nwhile True:\n    try:\n        time.sleep(900)\n    except BaseException:\n        pass"
    said = validated("--nbval-cell-timeout=0.1", endless=[cell(endless), cell("x = 1")])["endless"]
    assert "Cell 0 ran into the time limit of 0.1 s" in said["Cell 0"]
    assert "did not run: Cell 0 ran into the time limit" in said["Cell 1"]


def test_make_test_and_what_calls_it_compare_strictly():
    settings, command = (ROOT / "pyproject.toml").read_text(), (ROOT / "Makefile").read_text()
    assert "pytest --nbval " in command and "--nbval-lax" not in settings + command
