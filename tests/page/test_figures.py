"""Figures, tables and listings: what they say where something can draw, and where nothing can."""

import html
import json
import re
import subprocess
import sys

import numpy as np
import plotly.graph_objects as go
import pytest

from compile_lab.page.figures import PLOTLY, Drawing, Figure, Plot, Series, lines, script_json
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


def test_a_figure_carries_plot_words_and_numbers_escaped():
    table = Table(["what", "ms"], [["a", 1]])
    page = figure(alt='a "quoted" <b>', caption="x < y", table=table, provenance="measured live on CPU")._repr_html_()
    assert plot_in(page)["data"][0]["y"] == [1] and 'aria-label="a &quot;quoted&quot; &lt;b&gt;"' in page
    assert "x &lt; y · measured live on CPU" in page and "<table" in page


def test_a_drawing_is_svg_with_the_same_words():
    made = Drawing("<svg></svg>", 'one "bar"', "A bar", Table(["ms"], [[1]]), "measured live on CPU", "<b>█</b> bar")
    page = made._repr_html_()
    assert "<svg></svg>" in page and 'aria-label="one &quot;bar&quot;"' in page and "<table" in page
    assert "A bar · measured live on CPU" in page and "<b>█</b> bar" in page
    assert repr(made) == 'Figure: one "bar"\nA bar · measured live on CPU'


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


def test_two_dimensional_arrays_keep_their_shape():
    plot = go.Figure(go.Scatter(x=[0, 1], y=[0, 1], customdata=np.arange(6, dtype="int32").reshape(2, 3)))
    assert figure(plot=plot).to_json()["data"][0]["customdata"] == [[0, 1, 2], [3, 4, 5]]


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


def test_lines_have_a_symbol_and_a_dash_each_and_a_table_with_gaps():
    one = lines(
        [Series("p", [1, 2], [3.0, 4.0]), Series("q", [2, 4], [5.0, 6.0])],
        x_title="n",
        y_title="ms",
        title="Two lines.",
    )
    data = one.to_json()["data"]
    assert len({trace["line"]["dash"] for trace in data}) == len({t["marker"]["symbol"] for t in data}) == 2
    assert [list(row) for row in one.table.rows] == [[1, 3.0, None], [2, 4.0, 5.0], [4, None, 6.0]]


# Tables


def test_a_table_as_text_is_aligned():
    table = Table(["name", "bytes", "part"], [["a", 1234567, 0.5], ["long name", 8, None]], caption="Sizes")
    assert repr(table).splitlines() == [
        "Sizes",
        "name           bytes  part",
        "─────────  ─────────  ────",
        "a          1,234,567   0.5",
        "long name          8     –",
    ]


def test_a_table_as_html_puts_numbers_right_and_escapes_text():
    page = Table(["<name>", "n"], [["a & b", 1], ["c\nd", True]], caption="x `y`")._repr_html_()
    assert "x <code>y</code>" in page and "&lt;name&gt;" in page
    assert "a &amp; b" in page and "c<br>d" in page and ">yes</td>" in page
    assert 'text-align: right">1</td>' in Table(["n"], [[1], [None]])._repr_html_()


def test_a_cell_may_be_code_and_a_column_may_be_placed_by_hand():
    table = Table(["guard", "n"], [[Code("x > 0"), "1"]], align="cr")
    assert 'text-align: center"><code>x &gt; 0</code>' in table._repr_html_() and "x > 0" in repr(table)


def test_cells_of_several_lines_stay_aligned_as_text_and_numbers_have_four_figures():
    assert repr(Table(["a", "b"], [["1\n2", "x"]])).splitlines()[2:] == ["1  x", "2"]
    shown = repr(Table(["n"], [[1234567], [0.123456], [1234.5], [0.0], [2e-7]])).split()
    assert shown[2:] == ["1,234,567", "0.1235", "1,234", "0", "2.000e-07"]


# Code


def test_code_is_highlighted_on_a_page_and_plain_as_text():
    code = Code("\ndef f(x):\n    return x < 1\n", title="before")
    assert repr(code) == "before:\n\ndef f(x):\n    return x < 1"
    page = code._repr_html_()
    assert '<span class="k">def</span>' in page
    assert html.unescape(re.sub("<[^>]+>", "", page)) == "before\ndef f(x):\n    return x < 1\n"


def test_marked_lines_have_a_sign_beside_the_colour():
    code = Code("a = 1\nb = 2\nc = 3", mark={2})
    assert repr(code).splitlines() == ["  a = 1", "▶ b = 2", "  c = 3"]
    marked = re.findall(r'<span class="hll">(.*)</span>\n', code._repr_html_())
    assert len(marked) == 1 and "▶" in marked[0] and "b" in marked[0]


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
