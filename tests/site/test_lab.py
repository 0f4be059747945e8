"""JupyterLab with a kernel, in a browser: the Explorer's live face, and how figures, tables and listings look there.

It stands beside the site's tests because one process can drive one browser only.
"""

import json
import os
import secrets
import subprocess
import sys
import time

import harness
import nbformat
import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

CELLS = [
    """
import time
from compile_lab.page import Code, Explorer, Series, Table, bars, lines

def panel(cause, version):
    if cause == "fails":
        raise RuntimeError("boom <b>")
    if cause == "slow":
        time.sleep(3600)
    figure = bars(Series("graphs", ["before", "after"], [3, 1]), value_title="graphs", title="Two bars.",
                  caption=f"Graphs of {cause}", provenance="measured here")
    listing, table = Code("x = 1\\nprint(x)", mark={2}), Table(["a", "n"], [["b", 7]])
    return [f"The cause `{cause}` is {version}.", listing, table, figure]

causes = ["print", "item", "list", "dict", "fails", "slow"]
Explorer("What breaks?", {"cause": causes, "version": ["broken", "mended"]}, panel)
""",
    """
times = [Series("eager", [1, 2], [2.0, 4.0], [1.8, 3.5], [2.3, 4.4]), Series("a <lambda>", [1, 2], [1.0, 1.5])]
lines(times, x_title="n", y_title="ms", title="Two lines.", caption="A call", provenance="measured live on a test")
""",
    "from compile_lab.page import Verdict\nVerdict('C07', 'Printing breaks the graph', False, 'Here', 'It does not.')",
    "from compile_lab.preflight import preflight\npreflight()",
]


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory):
    """The address of a notebook in a JupyterLab of its own, on loopback, that ends with the tests."""
    home = tmp_path_factory.mktemp("lab")
    (home / "work").mkdir()
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, home / "work" / "try.ipynb")
    token = secrets.token_hex(16)
    setting = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    setting.parent.mkdir(parents=True)
    setting.write_text('{"fetchNews": "false"}')  # else it asks, in front of the notebook
    places = {
        name: str(home / name.lower()) for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")
    }
    places |= {f"JUPYTERLAB_{name}_DIR": str(home / name.lower()) for name in ("SETTINGS", "WORKSPACES")}
    environment = {**os.environ, **places, "PYTHONPATH": str(harness.ROOT), "JUPYTER_PLATFORM_DIRS": "1"}
    environment.pop("COMPILE_LAB_PUBLISH", None)
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"]
    command += [f"--ServerApp.root_dir={home / 'work'}", f"--IdentityProvider.token={token}"]
    command += [
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.expose_app_in_browser=True",
    ]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield f"{address_of(server, home)}lab/tree/try.ipynb?token={token}"
    finally:
        server.terminate()  # it ends its kernels before it goes
        try:
            server.wait(harness.LONGEST_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def address_of(server, home) -> str:
    """Port 0 is a free one: the server writes down which."""
    end = time.monotonic() + harness.LONGEST_S
    while time.monotonic() < end and server.poll() is None:
        for path in (home / "jupyter_runtime_dir").glob("jpserver-*.json"):
            try:
                return json.loads(path.read_text())["url"]
            except (ValueError, KeyError):
                pass  # half-written
        time.sleep(0.2)
    raise AssertionError(f"JupyterLab did not start:\n{(home / 'log').read_text()[-2000:]}")


@pytest.fixture(scope="module")
def lab(browser, jupyter):
    """The notebook, all its cells run."""
    context = harness.context_of(browser, viewport={"width": 1280, "height": 1400})
    visit = harness.Visit(context)
    visit.page.goto(jupyter)
    current = "window.jupyterapp?.shell?.currentWidget"
    visit.page.wait_for_function(f"{current}?.sessionContext?.session?.kernel?.status === 'idle'")
    visit.page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    visit.page.get_by_text("compute capability").or_(visit.page.locator(".lab-machine")).first.wait_for()
    yield visit
    context.close()


@pytest.fixture
def page(lab):
    """The explorer at its first choice."""
    lab.page.locator(".widget-dropdown select").select_option("print")
    lab.page.get_by_role("button", name="broken").click()
    shown(lab.page, "The cause print is broken.")
    return lab.page


def shown(page, text, within=".widget-output"):
    page.locator(within).get_by_text(text).first.wait_for()


def test_a_choice_by_mouse(page):
    page.get_by_role("button", name="mended").click()
    shown(page, "The cause print is mended.")
    page.locator(".widget-dropdown select").select_option("list")
    shown(page, "The cause list is mended.")
    expect(page.locator(".widget-output .highlight")).to_have_count(1)  # replaced, not added to


def test_a_choice_by_keyboard(page):
    assert page.get_by_text("version:", exact=True).is_visible()
    page.get_by_label("cause:").focus()
    page.keyboard.press("Space")  # opens the list; on a closed one JupyterLab takes the arrows, to move between cells
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    shown(page, "The cause item is broken.")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "mended"
    page.keyboard.press("Enter")
    shown(page, "The cause item is mended.")


def test_an_exception_is_readable_and_the_next_choice_works(page):
    page.locator(".widget-dropdown select").select_option("fails")
    shown(page, "RuntimeError")
    assert "boom <b> (while computing cause = fails, version = broken)" in page.locator(".lab-trouble").inner_text()
    page.locator(".lab-trouble summary").click()
    assert "in panel" in page.locator(".lab-trouble pre").inner_text()
    page.locator(".widget-dropdown select").select_option("dict")
    shown(page, "The cause dict is broken.")
    expect(page.locator(".lab-trouble")).to_have_count(0)


def test_a_long_computation_says_so_and_can_be_interrupted(page):
    page.locator(".widget-dropdown select").select_option("slow")
    shown(page, "computing cause = slow, version = broken …", ".widget-html")
    page.evaluate("window.jupyterapp.commands.execute('notebook:interrupt-kernel')")
    shown(page, "interrupted")
    page.get_by_text("computing cause").wait_for(state="detached")
    page.locator(".widget-dropdown select").select_option("item")
    shown(page, "The cause item is broken.")


def test_figures_code_and_verdicts_bring_their_styles_and_figures_follow_the_theme(page):
    mark = page.locator(".widget-output .m-figure")
    expect(mark.locator("figcaption")).to_have_text("Graphs of print · measured here")
    widths = mark.locator(".m-seg").evaluate_all("all => all.map((each) => each.getBoundingClientRect().width)")
    assert widths[0] == pytest.approx(3 * widths[1], rel=0.02), "the style sheet came along"
    listing = page.locator(".widget-output .highlight")
    assert listing.inner_text().splitlines()[:2] == ["  x = 1", "▶ print(x)"]
    colours = listing.locator("span.n, span.mi, span.nb").evaluate_all("all => all.map(e => getComputedStyle(e).color)")
    assert len(set(colours)) > 1
    border = page.locator(".lab-verdict").evaluate("element => getComputedStyle(element).borderLeft")
    assert border == "3px solid rgb(213, 94, 0)"
    title = "Two lines. A call · measured live on a test"
    expect(page.locator(".js-plotly-plot .gtitle", has_text=title)).to_have_count(1)
    assert "a <lambda>" in page.locator(".js-plotly-plot .legendtext").all_text_contents()
    plot, filtered = page.locator(".js-plotly-plot").first, "element => getComputedStyle(element).filter"
    assert plot.evaluate(filtered) == "none"
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    assert plot.evaluate(filtered).startswith("invert(0.9")
    page.evaluate("document.body.dataset.jpThemeLight = 'true'")


def test_nothing_went_wrong_in_the_browser(lab):
    assert lab.troubles == []
