"""The norm's two directions as a picture: one row and one column stand out, and the table says what each is for."""

from chapters.backward_fusion.experiments import norm_axes_view
from compile_lab.page.figures import PALETTE


def test_one_row_and_one_column_stand_out():
    drawing = norm_axes_view.axes()
    orange, sky = (drawing.svg.count(f"fill='{PALETTE[name]}'>") for name in ("orange", "sky"))
    assert orange == norm_axes_view.COLUMNS and sky == norm_axes_view.ROWS - 1, "they cross in one cell"
    assert [row[0] for row in drawing.table.rows] == ["along a row", "down a column"]
