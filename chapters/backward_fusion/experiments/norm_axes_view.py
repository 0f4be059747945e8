"""The two directions in which the backward of a layer norm reduces, drawn on the matrix that it walks over."""

from compile_lab.page.canvas import Canvas
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table

LEFT, TOP, CELL, ROWS, COLUMNS, A_BLOCK = 40.0, 40.0, 40.0, 6, 10, 2


def axes() -> Drawing:
    """A matrix with one row's sums to its right, and below it the sums over all rows: in two steps, block by block."""
    canvas = Canvas()
    for row in range(ROWS):
        for column in range(COLUMNS):
            colour = "orange" if row == 1 else "sky" if column == 3 else "grey"
            x, y = LEFT + column * CELL, TOP + row * CELL
            canvas.box(x, y, CELL - 4, CELL - 4, colour, faint=colour == "grey")
    right, bottom = LEFT + COLUMNS * CELL, TOP + ROWS * CELL
    canvas.words(LEFT, TOP - 14, "one row: d_out elements, in the registers of one block")
    canvas.line([(right + 4, TOP + 1.5 * CELL - 2), (right + 60, TOP + 1.5 * CELL - 2)], "orange", arrow=True)
    canvas.words(right + 72, TOP + 1.5 * CELL - 8, "along a row: two means", bold=True)
    canvas.words(right + 72, TOP + 1.5 * CELL + 16, "for the input's gradient; they stay in the block")
    x = LEFT + 3.5 * CELL - 2
    for block in range(ROWS // A_BLOCK):
        y = TOP + (block + 1) * A_BLOCK * CELL - 2
        canvas.line([(LEFT, y), (right - 4, y)], dashed=True, thick=1.5)
    canvas.words(right + 72, TOP + 3.5 * CELL - 8, "between two dashed lines:")
    canvas.words(right + 72, TOP + 3.5 * CELL + 16, "the rows of one block of threads")
    canvas.line([(x, bottom + 2), (x, bottom + 44)], "sky", arrow=True)
    canvas.words(x + 24, bottom + 26, "down a column, over all rows: one sum each", bold=True)
    canvas.words(x + 24, bottom + 50, "for gain, shift and bias: a partial sum in each block, then the sum of those")
    rows = [
        ["along a row", "the gradient of the norm's input", "none: the block holds the row"],
        ["down a column", "the gradients of gain, shift and bias", "one: no block holds all rows"],
    ]
    return Drawing(
        canvas.svg(),
        "A matrix of rows and columns. Two means of each row stay in its block; a sum over all rows is made of one "
        "partial sum of each block, and needs a second step.",
        "What the backward of a layer norm reduces, and in which direction",
        table=Table(["direction", "needed for", "steps through memory"], rows),
    )
