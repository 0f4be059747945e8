"""The Explorer: its rules, its published face, its live face, and what is left without widgets."""

import ast
import asyncio
import html
import inspect
import json
import re
import signal
import subprocess
import sys
import textwrap
import threading

import nbformat
import plotly.graph_objects as go
import pytest
from nbclient import NotebookClient
from nbclient.output_widget import OutputWidget

from compile_lab.page import explore, widgets
from compile_lab.page.axes import Range
from compile_lab.page.explore import Explorer
from compile_lab.page.figures import Figure
from compile_lab.page.live import answer
from compile_lab.page.tables import Code, Table
from compile_lab.page.widgets import WIDGET
from compile_lab.simulator import explored_view

AXES = {"cause": ["print", ".item()", "x < y"], "version": ["broken", "mended"]}


def panel(cause: str, version: str) -> str:
    return f"`{cause}` is {version}"


@pytest.fixture
def publishing(monkeypatch):
    monkeypatch.setenv(explore.PUBLISH, "1")


@pytest.fixture
def at_home(monkeypatch):
    """A kernel, as far as the Explorer can tell."""
    monkeypatch.delenv(explore.PUBLISH, raising=False)
    monkeypatch.setattr(explore, "in_kernel", lambda: True)


def choices(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" class="lab-choices">(.*?)</script>', page, re.S)[1])


def test_a_panel_is_computed_once():
    calls = []
    explorer = Explorer("T", {"a": ["1", "2"]}, lambda a: calls.append(a) or a)
    for option in ("1", "2", "1", "2"):
        explorer.show(a=option)
    assert calls == ["1", "2"]


# The published face


def test_a_panel_of_every_kind_survives_its_way_through_two_scripts(publishing):
    figure = Figure(go.Figure(go.Bar(y=[1], name="</script><!--")), "One </script> bar.")
    pieces = ["<script>alert(1)</script>", Code("print('</script>')"), Table(["a"], [["</section>"]]), figure]
    page = Explorer("T", {"a": ["1", "2"]}, lambda a: pieces)._repr_mimebundle_()["text/html"]
    stored = choices(page)["panels"]
    assert "<script>alert" not in stored[0] and "&lt;script&gt;alert" in stored[0]
    plot = re.search(r"plotly\.v1\+json\">(.*?)</script>", stored[1], re.S)[1]
    assert json.loads(plot)["data"][0]["name"] == "</script><!--"
    opened = re.findall(r"<script\b", page.split('class="lab-choices">')[0])
    assert len(opened) == 2, "the first panel's figure, and the choices"


def test_an_exception_is_not_published(publishing):
    def broken(a: str) -> str:
        return str(1 / (a == "1"))

    with pytest.raises(ZeroDivisionError) as raised:
        Explorer("T", {"a": ["1", "2"]}, broken)
    assert raised.value.__notes__ == ["in Explorer 'T', choice a = 2"]


def test_too_many_choices_and_too_much_html_are_refused_before_they_are_published(publishing):
    many = [str(number) for number in range(21)]
    with pytest.raises(ValueError, match="441 choices, and at most 400"):
        Explorer("T", {"a": many, "b": many}, lambda a, b: "")
    with pytest.raises(ValueError, match=r"is \d+ kB of HTML, above the 200 kB .* largest of 3 panels has 100 kB"):
        Explorer("T", {"a": ["1", "2", "3"]}, lambda a: "x" * 100_000)


# The live face


def test_a_kernel_gets_controls_and_no_precomputed_panels(at_home):
    calls = []
    explorer = Explorer("T", AXES, lambda cause, version: calls.append((cause, version)) or "text")
    bundle = explorer._repr_mimebundle_()
    assert set(bundle) == {WIDGET, "text/plain"}
    assert calls == [("print", "broken")]
    live = explorer._widgets
    assert [control.description for control in live._controls.values()] == ["cause:", "version:"]
    live._controls["version"].value = "mended"
    live._controls["version"].value = "broken"
    assert calls == [("print", "broken"), ("print", "mended")]


def printed(explorer: Explorer) -> str:
    """What stands in the live face's output, as text: outside of a kernel, display prints."""
    return "".join(output["text"] for output in explorer._widgets._output.outputs)


def test_what_a_panel_prints_stands_above_it_until_the_next_choice(at_home, capsys):
    def talkative(a: str) -> str:
        print(f"out {a}")
        print(f"err {a}", file=sys.stderr)
        return f"panel {a}"

    explorer = Explorer("T", {"a": ["1", "2"]}, talkative)
    explorer._repr_mimebundle_()
    explorer._widgets._controls["a"].value = "2"
    stdout, stderr = explorer._widgets._output.outputs
    assert (stdout["name"], stderr["name"], stderr["text"]) == ("stdout", "stderr", "err 2\n")
    assert stdout["text"].startswith("out 2\n")
    assert "panel 2" in stdout["text"] and "1" not in stdout["text"]
    assert capsys.readouterr() == ("", "")


def test_an_exception_is_a_panel_and_the_controls_stay_usable(at_home):
    def sometimes(a: str) -> str:
        if a == "2":
            raise RuntimeError("boom <b>")
        return f"fine {a}"

    explorer = Explorer("T", {"a": ["1", "2", "3"]}, sometimes)
    explorer._repr_mimebundle_()
    control = explorer._widgets._controls["a"]
    control.value = "2"
    assert "RuntimeError: boom <b> (while computing a = 2)" in printed(explorer)
    page = explorer._widgets._shown({"a": "2"})._repr_html_()
    assert "<strong>RuntimeError</strong>: boom &lt;b&gt; (while computing a = 2)" in page
    assert "<details><summary>Traceback</summary>" in page and "in sometimes" in page
    assert html.escape(widgets.__file__) not in page, "the reader's own lines, not the Explorer's"
    control.value = "3"
    assert "fine 3" in repr(explorer._widgets._shown({"a": "3"}))


def test_an_interrupt_is_said_and_the_choice_can_be_made_again(at_home):
    stopped = []

    def slow(a: str) -> str:
        if a == "2" and not stopped:
            stopped.append(True)
            raise KeyboardInterrupt
        return f"fine {a}"

    explorer = Explorer("T", {"a": ["1", "2"]}, slow)
    explorer._repr_mimebundle_()
    control = explorer._widgets._controls["a"]
    control.value = "2"
    assert "interrupted: a = 2" in printed(explorer)
    assert explorer._widgets._status.value == ""
    control.value = "1"
    control.value = "2"
    assert repr(explorer.show(a="2")) == "fine 2"


@pytest.fixture
def no_running_loop():
    """The tests of the site leave Playwright's loop running in this thread, if they came before."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


def test_a_choice_that_comes_on_another_thread_is_computed_on_the_main_one(at_home, no_running_loop):
    """As in JupyterLab with ipykernel 7: otherwise it would run beside the cells, and no interrupt would reach it."""
    ran = []

    def panel(a: str) -> str:
        ran.append((threading.current_thread(), signal.getsignal(signal.SIGINT)))
        if a == "2":
            raise KeyboardInterrupt
        return a

    explorer = Explorer("T", {"a": ["1", "2", "3"]}, panel)

    async def kernel() -> list[object]:
        explorer._repr_mimebundle_()
        live = explorer._widgets
        choices = ({"a": "3"}, {"a": "2"})
        return [await asyncio.to_thread(live._on_main_thread, lambda c=choice: live._shown(c)) for choice in choices]

    before = signal.getsignal(signal.SIGINT)
    three, interrupted = asyncio.run(kernel())
    assert repr(three) == "3" and interrupted.kind == "interrupted"
    assert [thread for thread, _ in ran] == [threading.main_thread()] * 3
    assert ran[1][1] is signal.default_int_handler, "an interrupt raises while a panel is computed"
    assert signal.getsignal(signal.SIGINT) is before


def test_only_widgets_that_colab_has_too():
    """Colab has ipywidgets 7.7: these names, and these arguments, are in it as they are in 8."""
    used = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(widgets)))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ipywidgets"
    }
    known = "HTML VBox Output ToggleButtons Dropdown Layout IntSlider FloatSlider SelectionSlider Textarea"
    assert used == set(known.split())


LIVE = """
import plotly.graph_objects as go
from compile_lab.page import Explorer
from compile_lab.page.figures import Figure

def panel(a):
    print("printed", a)
    return [a, Figure(go.Figure(go.Bar(y=[1])), "Bars.")] if a == "first" else a
"""


@pytest.mark.slow
def test_two_hundred_live_explorers_never_make_a_client_send(monkeypatch):
    """nbclient that sends while a cell's reply comes loses its wake-up: one such cell in fifteen stood still."""
    monkeypatch.delenv(explore.PUBLISH, raising=False)
    sent, send = [], OutputWidget.send
    monkeypatch.setattr(OutputWidget, "send", lambda self, data: sent.append(data) or send(self, data))
    cell = "Explorer('T', {'a': ['first', 'second']}, panel)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in [LIVE, *[cell] * 200]])
    client = NotebookClient(notebook, timeout=300, kernel_name="python3")
    client.execute()
    assert sent == []
    drawn = [state["outputs"] for state in client.widget_state.values() if state["_model_name"] == "OutputModel"]
    assert len(drawn) == 200
    for stream, text, figure in drawn:
        assert (stream["name"], stream["text"]) == ("stdout", "printed first\n")
        assert text["data"]["text/plain"] == "first"
        assert "application/vnd.plotly.v1+json" in figure["data"]


# Any value: ranges, and panels that the reader's browser computes

RANGED = {"schedule": ["GPipe", "1F1B"], "compared_with": ["1F1B", "GPipe"], "ranks": Range(1, 16, start=4)}
RANGED |= {"micro_batches": Range(1, 64, start=8), "backward": Range(0.5, 4, start=2, step=0.5, unit="F")}
RANGED |= {"transfer": Range(0, 1, start=0, step=0.25), "last_stage_longer_by": Range(0, 2, start=0)}
STORED = {"compared_with": ["1F1B"], "ranks": [4, 8]}


def live_explorer(**given) -> Explorer:
    return Explorer("T", RANGED, explored_view.pipeline, **{"live": True, "stored": STORED} | given)


def test_what_is_stored_is_what_the_browser_is_to_answer(publishing):
    stored = choices(live_explorer()._repr_mimebundle_()["text/html"])
    choice = {axis["key"]: axis["stored"][0] for axis in stored["live"]["axes"]} | {"schedule": "1F1B", "ranks": 8}
    assert stored["panels"][3] == answer(json.dumps({"panel": stored["live"]["panel"], "choice": choice}))


def test_show_takes_any_number_and_a_refusal_is_its_answer():
    explorer = live_explorer()
    assert "as long as 39 forwards" in repr(explorer.show(ranks=6))
    assert explorer.show(ranks=6.0) is explorer.show(ranks=6)
    assert repr(explorer.show(ranks=0)) == "**Not possible.** ranks is 0; it must be a whole number from 1"


def test_few_options_stand_side_by_side_many_in_a_list_and_a_range_is_a_slider(at_home):
    many = Explorer("T", {"many_more": [str(n) for n in range(9)]}, lambda many_more: "")
    many._repr_mimebundle_()
    explorer = live_explorer()
    assert explorer._repr_mimebundle_() == explorer._repr_mimebundle_(), "shown again: the same controls"
    controls = explorer._widgets._controls
    kinds = {name: type(each).__name__ for name, each in (controls | many._widgets._controls).items()}
    assert kinds["ranks"] == "IntSlider" and kinds["backward"] == "FloatSlider" and kinds["schedule"] == "ToggleButtons"
    assert kinds["many_more"] == "Dropdown" and not controls["ranks"].continuous_update, "a panel may take long"
    controls["ranks"].value = 6
    assert "as long as 39 forwards" in printed(explorer)


# What is left without widgets


def test_without_ipywidgets_the_first_panel_and_how_to_choose(at_home, monkeypatch):
    monkeypatch.setattr(explore.importlib.util, "find_spec", lambda name: None)
    bundle = Explorer("T", AXES, panel)._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert "<code>print</code> is broken" in bundle["text/html"]
    assert "explorer.show(cause='print', version='broken')" in bundle["text/plain"]


@pytest.mark.slow
def test_in_a_real_kernel_a_failing_panel_stops_the_published_notebook(publishing):
    """IPython swallows what a display method raises; the published face must not fail so quietly."""
    code = """
        from jupyter_client.manager import start_new_kernel
        manager, client = start_new_kernel()
        try:
            cell = "from compile_lab.page import Explorer; Explorer('T', {'a': ['1', '2']}, lambda a: 1 // 0)"
            print(client.execute_interactive(cell, timeout=300, output_hook=lambda message: None)["content"]["status"])
        finally:
            client.stop_channels(), manager.shutdown_kernel(now=True)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=600)
    assert run.stdout.strip() == "error", run.stderr
