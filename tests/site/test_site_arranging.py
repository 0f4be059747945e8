"""Exercise 12.3 in the page: blocks are dragged or moved with the keys, and the exercise's own judge answers."""

import harness
import pytest
from test_live import Reader

CHAPTER = "notebooks/12_pipeline_bubbles.html"
TITLE = "Arrange the blocks: the judge is that of the exercise below"
GPIPE = "F0 F1 F2 F3 B0 B1 B2 B3"
BEST = ("F0 F1 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3")


class Arranger(Reader):
    def block(self, rank: int, name: str):
        return self.explorer.get_by_role("button", name=f"{name} on rank {rank},")

    def order(self, *rows: str) -> str:
        return " | ".join([*rows, *[GPIPE] * (3 - len(rows))])

    def status(self) -> str:
        return self.explorer.locator(".lab-python .lab-note").inner_text()

    def told(self) -> str:
        return self.explorer.locator(".lab-told").inner_text()

    def focused(self) -> str:
        return self.page.evaluate("document.activeElement.getAttribute('aria-label') ?? ''")

    def drag(self, rank: int, name: str, before: str) -> None:
        """With the mouse, until the block's middle is left of the other's."""
        self.explorer.scroll_into_view_if_needed()
        block, other = (self.block(rank, each).locator("rect").first.bounding_box() for each in (name, before))
        y = block["y"] + block["height"] / 2
        self.page.mouse.move(block["x"] + block["width"] / 2, y)
        self.page.mouse.down()
        self.page.mouse.move(other["x"] + 1, y, steps=4)
        self.page.mouse.up()


@pytest.fixture
def arranger(shared):
    """The blocks as they start."""
    arranger = Arranger(shared(CHAPTER), TITLE)
    if not arranger.shows(order=arranger.order()) and arranger.explorer.get_attribute("data-shown"):
        arranger.explorer.get_by_role("button", name="Start over").click()
        arranger.wait(order=arranger.order())
    return arranger


@pytest.mark.browser
def test_a_forbidden_place_is_named_on_the_block_that_was_dragged_there(arranger):
    arranger.drag(0, "B0", "F0")
    arranger.wait(order=arranger.order("B0 F0 F1 F2 F3 B1 B2 B3"))
    assert "Not yet: with 3 ranks and 4 micro-batches it is no schedule: B of stage 0" in arranger.panel()
    assert "✕ B0 stands before its own F0" in arranger.explorer.locator("svg").text_content()
    assert "Not allowed: B0 stands before its own F0" in arranger.block(0, "B0").get_attribute("aria-label")
    assert "Not allowed" in arranger.focused() and "no schedule" in arranger.told() and arranger.troubles == []


@pytest.mark.browser
def test_the_known_optimum_is_reached_and_accepted_with_the_keyboard_alone(arranger):
    page = arranger.page
    arranger.explorer.get_by_role("button", name="Start over").focus()
    page.keyboard.press("Tab")
    assert arranger.focused().startswith("F0 on rank 0, number 1 of 8: from 0 to 1 F.")
    page.keyboard.press("ArrowRight")
    arranger.wait(order=arranger.order("F1 F0 F2 F3 B0 B1 B2 B3"))
    assert arranger.focused().startswith("F0 on rank 0, number 2 of 8") and "number 2 of 8" in arranger.told()
    page.keyboard.press("ArrowLeft")
    arranger.wait(order=arranger.order())
    now = [row.split() for row in [GPIPE] * 3]
    for rank, best in enumerate(map(str.split, BEST)):
        for place, name in enumerate(best):
            arranger.block(rank, name).focus()
            while (at := now[rank].index(name)) > place:
                page.keyboard.press("ArrowLeft")
                now[rank].insert(at - 1, now[rank].pop(at))
                arranger.wait(order=" | ".join(map(" ".join, now)))
    assert arranger.panel().startswith("✓ Right.") and "3, 2, 1 (3 allowed)" in arranger.panel()
    assert "Span 18 F (GPipe takes 18); bubble 33 %" in arranger.panel() and "✓ Right." in arranger.told()
    arranger.explorer.get_by_role("button", name="Start over").click()
    arranger.wait(order=arranger.order())
    assert "holds 4 activations at a time" in arranger.panel() and arranger.troubles == []


@pytest.mark.browser
def test_a_finger_moves_a_block(visit):
    arranger = Arranger(visit(CHAPTER, width=390, has_touch=True, is_mobile=True), TITLE)
    arranger.explorer.scroll_into_view_if_needed()
    block, other = (arranger.block(2, each).locator("rect").first.bounding_box() for each in ("F3", "F0"))
    y = block["y"] + block["height"] / 2
    client = arranger.page.context.new_cdp_session(arranger.page)
    for kind, at in (("touchStart", block["x"] + 4), ("touchMove", other["x"] + 20), ("touchMove", other["x"] - 8)):
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": at, "y": y}]})
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    arranger.wait(order=arranger.order(GPIPE, GPIPE, "F3 F0 F1 F2 B0 B1 B2 B3"))


@pytest.mark.browser
def test_without_python_it_says_so_and_the_picture_stays(visit, monkeypatch):
    do_get = harness.Handler.do_GET
    monkeypatch.setattr(
        harness.Handler, "do_GET", lambda self: self.send_error(404) if "python.zip" in self.path else do_get(self)
    )
    arranger = Arranger(visit(CHAPTER), TITLE)
    arranger.block(0, "F0").focus()
    arranger.page.keyboard.press("ArrowRight")
    status = arranger.explorer.locator("[role=status]", has_text="Python does not run here")
    status.wait_for()
    assert "rank 2" in arranger.explorer.locator("svg").text_content() and "Span 18 F" in arranger.panel()
    assert arranger.explorer.get_by_role("radio").count() == 0


@pytest.mark.browser
@pytest.mark.matrix
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_arranged_and_computed_is_accessible(visit, theme):
    visited = visit(CHAPTER, color_scheme=theme)
    arranger, reader = Arranger(visited, TITLE), Reader(visited)
    assert harness.violations(visited.page, ".lab-explorer") == []
    arranger.drag(1, "B0", "F0")
    arranger.wait(order=arranger.order(GPIPE, "B0 F0 F1 F2 F3 B1 B2 B3"))
    for ranks in (6, 0):
        reader.type("ranks", ranks)
        reader.wait(ranks=ranks)
        assert harness.violations(visited.page, ".lab-explorer") == []
