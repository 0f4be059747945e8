"""Lifetimes as a reader sees them: what a bar's place and height say, and that pictures and tables agree."""

import pytest

from compile_lab.memory import gantt_view
from compile_lab.memory import view as memory_view
from compile_lab.memory.ledger import Ledger, Tensor
from compile_lab.source import Line


def tensor(op, kind, nbytes, line=1):
    return Tensor(op, f"aten.{op}", kind, (nbytes // 4,), "float32", nbytes, -1, 0, Line("model.py", line))


@pytest.fixture
def step():
    """Two activations, a temporary, a gradient that outlives the step, and a few bytes that nobody would see."""
    ledger = Ledger()
    ledger.resident("w", tensor("w", "parameter", 500_000))

    def op(name, phase, line, **made):
        ledger.operation(name, f"aten.{name}", phase, Line("model.py", line), made)

    op("mm", "forward", 1, a=tensor("mm", "activation", 2_000_000))
    op("sum", "forward", 2, small=tensor("sum", "activation", 4))
    op("gelu", "forward", 3, b=tensor("gelu", "activation", 2_000_000, 3), t=tensor("gelu", "temporary", 1_000_000, 3))
    ledger.free("t")
    op("mul", "backward", 3, g=tensor("mul", "temporary", 3_000_000, 3))
    ledger.free("b"), ledger.free("small")
    op("mm_1", "backward", 1, dw=tensor("mm_1", "gradient", 500_000))
    ledger.free("a"), ledger.free("g")
    return ledger.lifetimes()


def bars(step):
    plot = gantt_view.gantt(step).to_json()
    return {trace["name"]: trace for trace in plot["data"] if trace["type"] == "bar"}, plot["layout"]


def test_a_bar_runs_from_birth_to_death_and_is_as_high_as_its_bytes(step):
    found, _ = bars(step)
    assert found["activation"]["base"][:2] == [-0.5, 1.5]
    assert found["activation"]["x"][:2] == [5, 2], "from operation 0 to 4, and from 2 to 3"
    assert found["activation"]["width"][:2] == [2, 2] and found["temporary"]["width"] == [1, 3], "in MB"
    assert found["gradient"]["base"] == [3.5] and found["gradient"]["x"] == [1], "what outlives the step ends with it"


def test_bars_stand_one_under_the_other_so_that_what_a_line_crosses_adds_up(step):
    found, _ = bars(step)
    rows = sorted((y, width) for trace in found.values() for y, width in zip(trace["y"], trace["width"], strict=True))
    top = 0.0
    for middle, height in rows:
        assert middle - height / 2 == pytest.approx(top)
        top += height
    crossed = sum(
        width
        for trace in found.values()
        for base, length, width in zip(trace["base"], trace["x"], trace["width"], strict=True)
        if base < step.peak_at < base + length and width > 0.1
    )
    assert crossed == pytest.approx(step.peak_nbytes / 1e6, rel=0.001)


def test_buffers_too_small_to_be_seen_are_one_band_of_their_kind(step):
    found, _ = bars(step)
    assert "1 small buffers<br>at most 4 bytes" in found["activation"]["hovertext"][-1]
    assert found["activation"]["base"][-1] == 0.5 and found["activation"]["x"][-1] == 3


def test_the_band_counts_what_is_alive_at_one_time():
    ledger = Ledger()
    ledger.operation("mm", "aten.mm", "forward", None, {"a": tensor("mm", "temporary", 1_000_000)})
    for at in range(3):
        ledger.operation("sum", "aten.sum", "forward", None, {at: tensor("sum", "temporary", 100)})
        ledger.free(at)
    (trace,) = bars(ledger.lifetimes())[0].values()
    assert "3 small buffers<br>at most 100 bytes" in trace["hovertext"][-1]


def test_hovering_names_operation_shape_bytes_line_birth_and_death(step):
    text = bars(step)[0]["activation"]["hovertext"][1]
    for part in ("gelu", "500000 float32", "2 MB", "model.py, line 3", "operation 2 to 3"):
        assert part in text
    assert "after the step" in bars(step)[0]["gradient"]["hovertext"][0]


def test_each_kind_has_a_colour_and_a_pattern_of_its_own():
    assert set(gantt_view.STYLES) == set(memory_view.KINDS)
    for at in (0, 1):
        signs = [style[at] for style in gantt_view.STYLES.values()]
        assert len(set(signs)) == len(signs)


def test_the_peak_and_the_turn_from_forward_to_backward_are_marked(step):
    layout = bars(step)[1]
    assert {shape["x0"] for shape in layout["shapes"]} == {2.5, step.peak_at}
    assert [note["text"].strip() for note in layout["annotations"]] == ["forward", "backward", "peak 7 MB"]


def test_the_curve_holds_the_live_bytes_of_each_operation(step):
    curve = gantt_view.gantt(step).to_json()["data"][0]
    assert curve["y"] == pytest.approx([moment.live_bytes / 1e6 for moment in step.timeline], rel=1e-5)


def test_words_say_what_the_picture_shows(step):
    alt = gantt_view.gantt(step).alt
    for part in ("5 operations", "4 MB at the end", "7 MB in the backward (mul)", "4 MB of kind activation"):
        assert part in alt
    summary = memory_view.summary(step)
    for part in ("**7 MB**", "in the backward", "`mul`", "model.py, line 3", "4 MB are alive", "500 kB"):
        assert part in summary


def test_the_table_of_the_peak_adds_up_to_it(step):
    rows = memory_view.at_peak(step).rows
    assert sum(row[4] for row in rows) == step.peak_nbytes
    assert rows[0][:5] == ("temporary", "mul", "model.py, line 3", 1, 3_000_000)
    cut = memory_view.at_peak(step, most=1).rows
    assert [row[0] for row in cut] == ["temporary", "all others"] and sum(row[4] for row in cut) == step.peak_nbytes


def test_alike_buffers_are_one_row_at_the_peak():
    ledger = Ledger()
    made = {at: tensor("mm", "temporary", 100) for at in range(3)}
    ledger.operation("mm", "aten.mm", "forward", None, made)
    ((kind, op, _, count, nbytes, share),) = memory_view.at_peak(ledger.lifetimes()).rows
    assert (kind, op, count, nbytes, share) == ("temporary", "mm", 3, 300, "100.0 %")


def test_kinds_at_the_peak_of_several_steps_stand_side_by_side(step):
    table = memory_view.kinds_at_peak({"one": step, "two": step})
    assert table.columns == ["", "activation", "temporary", "peak, bytes", "at"]
    assert table.rows[0] == ("one", 4_000_004, 3_000_000, 7_000_004, "backward, mul")


def test_the_peak_is_told_against_what_is_alive_between_the_passes(step):
    ((name, held, peak, ratio, at, after),) = memory_view.peaks({"one": step}).rows
    assert (name, held, peak, ratio) == ("one", 4_000_004, 7_000_004, "1.75×")
    assert (at, after) == ("backward, mul", "50 %"), "the first of two operations after the forward"


def test_curves_give_each_phase_the_same_width(step):
    plot = memory_view.curves({"one": step}).to_json()
    assert plot["data"][0]["x"] == [0, 0.3333, 0.6667, 1, 1.5]
    assert plot["layout"]["xaxis"]["range"] == [0, 2]
    with pytest.raises(ValueError, match="nothing to draw"):
        memory_view.curves({})
