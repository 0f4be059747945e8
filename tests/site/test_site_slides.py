"""Slides in a browser: nothing is fetched, nothing is taller than its slide, plots are drawn, notes are there."""

import harness
import pytest
import slides

CHAPTER = "00_eager_baseline"
SLIDE = """() => {
  const slide = Reveal.getCurrentSlide();
  const empty = slide.querySelectorAll(".lab-plot:not(:has(svg))").length;
  return [slide.innerText.slice(0, 40), slide.clientHeight * (+slide.style.zoom || 1), empty];
}"""
"""How the slide in sight begins, how tall it is, and its plots that were not drawn."""


@pytest.fixture(scope="module")
def deck(tmp_path_factory):
    path = tmp_path_factory.mktemp("slides") / f"{CHAPTER}.html"
    path.write_text(slides.deck_of(harness.ROOT / f"notebooks/{CHAPTER}.ipynb"), "utf-8")
    return path


@pytest.mark.browser
def test_every_slide_fits_and_nothing_is_fetched(browser, deck):
    context = harness.context_of(browser, viewport={"width": 1280, "height": 720})
    page, asked, troubles = context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(deck.as_uri())
    page.wait_for_function("window.Reveal?.isReady()")
    count = page.evaluate("Reveal.getTotalSlides()")
    assert count > 20
    for _ in range(count):
        begins, height, empty = page.evaluate(SLIDE)
        assert height <= 740 and empty == 0, begins
        page.keyboard.press("Space")
    assert page.evaluate("Reveal.isLastSlide()")
    assert page.locator("aside.notes").count() > 10
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == [] == troubles
    context.close()
