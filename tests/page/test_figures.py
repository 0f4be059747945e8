"""Figures, tables and listings: what they say where something can draw, and where nothing can."""

import json
import re
import subprocess
import sys

import numpy as np
import plotly.graph_objects as go
import pytest

from compile_lab.page.figures import PLOTLY, Figure, Plot, script_json
from compile_lab.page.tables import Code, Table


@pytest.fixture(autouse=True)
def no_colab(monkeypatch):
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)


def figure(**changes) -> Figure:
    given = {"plot": go.Figure(go.Bar(x=["a"], y=[1])), "alt": "One bar.", "caption": "A bar", **changes}
    return Figure(**given)


def plot_in(page: str) -> dict:
    return json.loads(re.search(rf'<script type="{re.escape(PLOTLY)}">(.*?)</script>', page, re.S).group(1))


def test_importing_needs_neither_torch_nor_plotly():
    code = (
        "import sys, compile_lab.page.figures, compile_lab.page.explore; "
        "print(*{'torch', 'plotly', 'numpy'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


@pytest.mark.parametrize("text", ["</script><b>", "<!--<script>", "a</SCRIPT>"])
def test_json_cannot_leave_its_script(text):
    written = script_json({"text": text})
    assert "</" not in written and "<!--" not in written
    assert json.loads(written) == {"text": text}


def test_arrays_become_lists_and_nan_a_gap():
    plot = go.Figure(go.Scatter(x=np.arange(3), y=np.array([1 / 3, np.nan, 2.0]), marker={"size": np.int64(7)}))
    (trace,) = figure(plot=plot).to_json()["data"]
    assert trace["x"] == [0, 1, 2]
    assert trace["y"] == [0.333333, None, 2.0]
    assert trace["marker"]["size"] == 7


def test_jupyterlab_which_draws_the_plot_alone_still_shows_the_caption():
    bundle, metadata = figure(provenance="recorded on X <y>")._repr_mimebundle_()
    assert bundle[PLOTLY]["layout"]["title"]["text"] == "A bar · recorded on X &lt;y&gt;"
    assert bundle["text/plain"] == "Figure: One bar.\nA bar · recorded on X <y>"
    assert metadata[PLOTLY]["alt"] == "One bar."
    assert "title" not in plot_in(bundle["text/html"])["layout"], "the page has the caption below the plot"


def test_on_colab_plotly_draws_by_itself_and_the_words_stay(monkeypatch):
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release-colab")
    bundle = figure(table=Table(["a"], [[1]]))._repr_mimebundle_()
    assert PLOTLY not in bundle
    assert "Plotly.newPlot" in bundle["text/html"]
    assert len(bundle["text/html"]) < 100_000, "plotly.js itself is linked, not embedded"
    assert "<figcaption>A bar</figcaption>" in bundle["text/html"] and "<table" in bundle["text/html"]


def test_without_pygments_code_is_still_shown(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygments.lexers", None)
    assert "<pre>x &lt; 1\n</pre>" in Code("x < 1")._repr_html_()


def test_a_plot_without_plotly_is_written_as_plotlys_own(monkeypatch):
    """Byte for byte: a page's Python has no plotly, and a stored output does not depend on who wrote it."""
    marker = {"pattern": {"shape": "/", "size": 6}, "color": "#0072B2", "line": {"width": 1, "color": "#FFFFFF"}}
    trace = {"y": ["b", "a"], "x": [1, 2.5], "name": "n", "orientation": "h", "marker": marker, "base": [0.5, 0]}
    line = {"y1": 1, "type": "line", "x0": 1, "x1": 1, "y0": 0, "line": {"width": 1.5, "dash": "dot"}}
    layout = {
        "yaxis": {"type": "category"},
        "height": 188,
        "shapes": [line],
        "xaxis": {"title": {"text": "ms"}, "range": [0, 3]},
    }
    ours = figure(plot=Plot([{"type": "bar", **trace}], layout))
    theirs = figure(plot=go.Figure([go.Bar(**trace)], layout))
    assert ours._repr_html_() == theirs._repr_html_()
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    assert "cdn" in ours._repr_mimebundle_()["text/html"]
