"""The switch in the header: the page in English or in Spanish, remembered, and both within reach without a script."""

import harness
import pytest

pytestmark = pytest.mark.browser

CHAPTER = f"{harness.chapters()[1]}.html"
PAGES = harness.pages()


def spanish(page):
    page.locator(".lab-language").click()
    page.wait_for_function("() => document.querySelector('[lang=es].caption-text')")


@pytest.mark.parametrize("path", harness.sampled(PAGES, harness.SAMPLE[:1]))
def test_every_page_has_the_switch_and_follows_it(visit, path):
    visited = visit(path)
    page = visited.page
    link = page.locator(".lab-language")
    assert link.is_visible() and link.inner_text() == "Español" and link.get_attribute("lang") == "es"
    spanish(page)
    assert link.inner_text() == "English" and link.get_attribute("lang") == "en"
    assert page.locator(".bd-sidebar-primary .caption-text").last.inner_text() == "Referencia"
    assert visited.troubles == []


def test_title_opening_and_the_sites_words_change_and_change_back_with_the_keyboard_too(shared):
    page = shared(CHAPTER).page
    heading, opening, fold = (
        page.locator(f"article {what}").first for what in ("h1", ".lab-english", ".lab-fold summary")
    )
    before = heading.inner_text(), page.title(), page.locator("article").inner_text()
    assert opening.is_visible() and not page.locator(".lab-spanish").is_visible()
    spanish(page)
    assert heading.inner_text().startswith("Roturas del grafo") and heading.get_attribute("lang") == "es"
    assert page.title() == "01 Roturas del grafo"
    assert page.locator(".lab-eyebrow").inner_text().startswith("Capítulo 01")
    assert not opening.is_visible() and page.locator("#espanol").is_visible()
    assert "no compila Python" in page.locator("#espanol").inner_text()
    assert fold.get_attribute("aria-label") == "Código: la figura de abajo"
    page.locator(".lab-language").focus()
    page.keyboard.press("Enter")
    assert (heading.inner_text(), page.title(), page.locator("article").inner_text()) == before
    assert page.locator("article h1[lang], article .lab-fold [lang]").count() == 0


def test_the_next_page_remembers(shared):
    page = shared(CHAPTER).page
    spanish(page)
    page.locator(".right-next").click()
    page.wait_for_function("() => document.querySelector('article h1')?.lang === 'es'")
    assert page.locator("#espanol").is_visible() and page.locator(".lab-english:visible").count() == 0
    assert page.locator("html").get_attribute("lang") == "en", "the chapter's text is English"


def test_without_scripts_the_page_is_english_and_the_link_opens_the_spanish_opening(visit):
    page = visit(CHAPTER, java_script_enabled=False).page
    assert page.locator(".lab-english").first.is_visible() and page.locator(".lab-spanish summary").is_visible()
    assert not page.locator("#espanol").is_visible()
    page.locator(".lab-language").click()
    page.locator("#espanol").wait_for()


@pytest.mark.matrix
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_in_spanish_a_chapter_is_accessible_and_fits_a_phone(visit, theme):
    page = visit(CHAPTER, width=390, height=844, color_scheme=theme, bypass_csp=True).page
    spanish(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.add_script_tag(path=harness.ROOT / "book/node_modules/axe-core/axe.min.js")
    found = page.evaluate("async () => (await axe.run({ resultTypes: ['violations'] })).violations")
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
