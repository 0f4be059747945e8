"""A browser that keeps nothing, that is full, or that kept something else: every page works, and only forgets."""

import json

import pytest
from test_site_answers import Exercise

LANDING, CHAPTER, ANSWERED = (
    "book/index.html",
    "notebooks/01_graph_breaks.html",
    "notebooks/08_activation_checkpointing.html",
)
SUM = "book/predictions.html"
FORBIDDEN = """Object.defineProperty(window, "localStorage", {
  configurable: true, get() { throw new DOMException("Access is denied", "SecurityError"); } })"""
FULL = """for (let at = 22; at >= 0; at -= 1) {
  try { localStorage.setItem(String.fromCharCode(65 + at), "x".repeat(2 ** at)); } catch {}
}"""
KEYS = (
    *("lab-progress", "lab-predictions", "lab-answers:01_graph_breaks.html", "lab-language", "lab-answer-08.1"),
    *("mode", "theme", "of another page"),
)
ENTRY = {
    **dict.fromkeys(("question", "text", "found", "title"), "words"),
    **{"page": "/book/index.html", "log": True, "chosen": False, "said": 3, "measured": 4},
}
ANYTHING = (None, True, 7, "javascript:hacked()", [], ["words"], {}, {"page": 7})
SPOILT = {
    f"{name} {other!r}": ENTRY | {name: other}
    for name in ENTRY
    for other in (*ANYTHING, -1)
    if type(other) is not type(ENTRY[name]) or (name, other) in (("page", ANYTHING[3]), ("said", -1), ("measured", -1))
}
"""One field of a prediction each is not what the book writes there."""
PAGE = "notebooks/01_graph_breaks"
OF_THE_KIND = [
    {"chapters": {PAGE: "<img src=x onerror=hacked()>"}, "last": {"page": {}}},
    {"chapters": None, "last": None},
    {"chapters": {PAGE: 1e300}, "last": {"page": PAGE, "section": {}}},
    {"chapters": ["1" * 60], "last": {"page": PAGE, "section": ["words"]}},
    {"chapters": {PAGE: ["1" * 60]}, "last": {"page": PAGE, "section": "50%"}},
    {"last": {"page": [PAGE], "section": "words"}},
    {"a": None, "b": {"said": 3, "measured": "x"}, "c": {"said": 3, "measured": 0}},
    {"d": dict.fromkeys(("question", "text", "found", "page", "title", "said", "measured"), "<b>")},
    SPOILT,
]
GARBAGE = [
    json.dumps(OF_THE_KIND[0]),
    *(
        pytest.param(each, marks=pytest.mark.matrix)
        for each in ("{damaged", "", "null", "[]", *map(json.dumps, OF_THE_KIND[1:]))
    ),
]


def keeping(garbage: str) -> str:
    return "".join(f"localStorage.setItem({json.dumps(key)}, {json.dumps(garbage)});" for key in KEYS)


THEMES = "console: Got invalid theme mode"
"""What the theme says of a mode that it does not know, and then takes its own."""


def spoilt(script):
    return lambda page: page.add_init_script(script)


@pytest.mark.browser
@pytest.mark.parametrize(
    "script", [pytest.param(FORBIDDEN, id="forbidden"), pytest.param(FULL, id="full", marks=pytest.mark.matrix)]
)
def test_what_the_browser_does_not_keep_is_kept_until_the_page_is_left(visit, script):
    exercise = Exercise(visit(ANSWERED, before=spoilt(script)))
    page = exercise.page
    for _ in range(3):  # auto, light, dark
        before = page.locator("html").get_attribute("data-mode")
        page.locator(".theme-switch-button:visible").click()
        assert page.locator("html").get_attribute("data-mode") != before
    exercise.press("Answer here")
    exercise.field.fill('check("08.1", None)')
    assert page.evaluate("localStorage.getItem('lab-answer-08.1')") == 'check("08.1", None)'
    exercise.press("Start over")
    assert page.evaluate("localStorage.getItem('lab-answer-08.1')") is None
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")
    page.wait_for_function("() => localStorage.getItem('lab-progress')")
    page.wait_for_load_state("networkidle")
    # Not the progress: the scroll of the reload writes it again.
    page.evaluate("localStorage.setItem('lab-of-this-visit', 'kept')")
    assert page.evaluate("localStorage.getItem('lab-of-this-visit')") == "kept"
    page.reload()
    assert page.evaluate("localStorage.getItem('lab-of-this-visit')") is None
    assert exercise.cell.get_by_role("button", name="Answer here").is_visible()
    page.wait_for_load_state("networkidle")
    assert exercise.troubles == []


@pytest.mark.browser
@pytest.mark.parametrize("garbage", GARBAGE)
def test_what_is_not_the_books_is_as_nothing(visit, garbage):
    visited = visit(LANDING, before=spoilt(keeping(garbage)))
    page = visited.page
    for path in (LANDING, SUM, CHAPTER):
        if path != LANDING:
            page.wait_for_load_state("networkidle")
            page.goto(page.url.replace(LANDING, path).replace(SUM, path))
        assert page.locator("article h1").first.is_visible() and page.locator(".lab-read").count() == 0
        assert page.locator(".lab-reading a[href*='#']").count() == 0, "no section is one of the book's"
        assert path != SUM or "not predicted anything" in page.locator(".lab-calibration").text_content()
        assert [each for each in visited.troubles if not each.startswith(THEMES)] == [], path
    assert page.locator(".lab-prediction").count() and not page.locator(".lab-follows:visible").count()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.wait_for_function("garbage => localStorage.getItem('lab-progress') !== garbage", arg=garbage)
    assert page.evaluate("JSON.parse(localStorage.getItem('lab-progress')).last.page") == CHAPTER.partition(".")[0]
    assert [each for each in visited.troubles if not each.startswith(THEMES)] == []
