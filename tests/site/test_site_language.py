"""The site in Spanish: every page, its switch, its search, what its scripts write, and catalogues that say the same."""

import json
import re

import harness
import pytest
from babel.messages.pofile import read_po
from bs4 import BeautifulSoup
from lab_site import quotes, spanish
from lab_site.pages import page_files
from test_live import FIRST, PIPELINE

from compile_lab.page.messages import HOLE
from compile_lab.page.phrases import PART

CHAPTER = "notebooks/12_pipeline_bubbles.html"
IN_SPANISH = f"es/{CHAPTER}"
ENGLISH = re.compile(
    r"\b(?:the|and|which|with|of|is|are|for|that|this|from|what|how|when|each|it|by|an)\b", re.IGNORECASE
)
"""Words that no Spanish sentence has, and hardly an English one is without."""
NAMES = re.compile(
    r"«[^»]*»|“[^”]*”|\"[^\"]*\"|'[^']*'|one forward, one backward|fully sharded data parallel|just-in-time|"
    r"\b(?:an|is|for|by)\b(?=[ .]?[=({\[])|\bwith torch\.\w+"
)
"""Titles, torch's own words and abbreviations that a sentence explains: English in any language."""


def catalogues():
    return sorted((harness.ROOT / spanish.CATALOGUES).glob("*.po"))


def sentences(path):
    with path.open("rb") as file:
        return [(each.id, each.string) for each in read_po(file) if each.id and each.string and not each.fuzzy]


@pytest.mark.parametrize("path", catalogues(), ids=lambda path: path.stem)
def test_a_sentence_has_the_same_marks_in_both_languages(path):
    def marks(text):
        found = list(HOLE.finditer(text))
        parts = {part.replace("=", "") for part in PART.findall(text)}
        return {each["number"] for each in found}, sorted(each[0] for each in found if each["number"] is None), parts

    assert [english for english, words in sentences(path) if marks(english) != marks(words)] == []


def test_every_page_has_its_own_in_spanish_with_the_same_places_and_each_leads_to_the_other(built):
    for path in page_files(built):
        name, texts = path.relative_to(built).as_posix(), []
        for page, other, language in ((path, built / "es" / name, "en"), (built / "es" / name, path, "es")):
            texts.append(text := page.read_text("utf-8"))
            assert f'<html lang="{language}"' in text, page
            links = re.findall(r'<a class="[^"]*lab-language[^"]*"[^>]*href="([^"]+)"', text)
            assert all((page.parent / link).resolve() == other.resolve() for link in links), page
            assert links or "lab-language" not in text, page
        english, spanish_ = (re.findall(r'\sid="([^"]+)"', text) for text in texts)
        assert english == spanish_, path


def test_what_is_quoted_in_english_is_marked_so_and_nothing_else_is():
    marked = '<span lang="en">{}</span>'.format
    for before, after in (
        ("<p>La caché de la GPU</p>", "<p>La caché de la GPU</p>"),
        ("<td>pico: it is &lt;2; what of it?</td>", f"<td>pico: {marked('it is &lt;2')}; {marked('what of it?')}</td>"),
        (
            "<p>Sin medir: él (dim is 3; so is it)</p>",
            f"<p>Sin medir: él ({marked('dim is 3')}; {marked('so is it')})</p>",
        ),
        ("<pre>it is the end</pre><code>it is</code>", "<pre>it is the end</pre><code>it is</code>"),
    ):
        assert quotes.quoted(before) == after


@pytest.mark.parametrize("path", harness.sampled(harness.pages(), harness.SAMPLE[:1]))
def test_a_spanish_page_says_nothing_in_english(built, path):
    page = BeautifulSoup((built / "es" / path).read_text("utf-8"), "html.parser")
    for other in page.select("pre, code, script, style, mjx-container, [lang=en], .bibtex-citation, .citation-list"):
        other.decompose()
    texts = [" ".join(text.split()) for text in page.body.stripped_strings]
    texts += [element["aria-label"] for element in page.select("[aria-label]")]
    left = [text for text in texts if len(ENGLISH.findall(NAMES.sub("", text))) > 1]
    assert left == []


@pytest.mark.browser
def test_the_switch_keeps_the_place_and_works_without_a_script(visit):
    page = visit(CHAPTER).page
    near = "() => Math.abs(document.querySelector('#cut-the-batch').getBoundingClientRect().top) < innerHeight"
    page.wait_for_load_state("networkidle")
    page.locator("#cut-the-batch").evaluate("place => place.scrollIntoView({ behavior: 'instant' })")
    page.wait_for_function(near)
    page.locator(".lab-language").evaluate("link => link.click()")  # Playwright's own would scroll before it
    page.wait_for_url(re.compile(r"/es/notebooks/12_pipeline_bubbles\.html#."))
    page.wait_for_function(near)
    assert page.locator("article h1").inner_text().startswith("Burbujas en el pipeline")
    assert page.locator(".lab-language").inner_text() == "English"
    plain = visit(IN_SPANISH, java_script_enabled=False).page
    plain.locator(".lab-language").click()
    plain.wait_for_url(f"**/{CHAPTER}")
    assert plain.locator("article h1").inner_text().startswith("Pipeline bubbles")


@pytest.mark.browser
def test_what_scripts_write_is_spanish(visit):
    visited = visit(IN_SPANISH)
    page = visited.page
    asked = page.locator(".lab-prediction").first
    asked.locator("label").last.click()
    asked.get_by_role("button", name="Esa es mi predicción").click()
    assert asked.locator(".lab-said").inner_text().startswith("Dijiste ")
    explorer = page.locator(".lab-explorer").filter(has=page.get_by_label("comparada con")).first
    slider = explorer.get_by_role("slider", name="microlotes", exact=True)
    slider.fill(str(int(slider.input_value()) + 5))
    page.wait_for_function("() => document.querySelector('.lab-explorer[data-ms]')")
    assert "tarda" in explorer.locator(".lab-panel p").first.inner_text()
    asked = {"panel": PIPELINE, "choice": FIRST | {"ranks": 0}}
    refused = BeautifulSoup(page.evaluate("asked => window.lab.ask(asked)", asked), "html.parser").p.get_text()
    assert "ranks es 0; tiene que ser un número entero" in refused and not ENGLISH.search(refused)
    assert page.locator("[data-bs-original-title='Buscar']").count() and not page.locator("[title=Search]").count()
    assert page.locator("[title*='Proceedings of Machine Learning and Systems']").count(), "names stay as they are"
    assert visited.troubles == []


ANSWERS = {
    'check("08.3", 4)': "✗ 08.3: se puede repetir menos: busca la pareja que cabe.",
    'check("08.3", 3)': "✓ 08.3: correcto.",
    'check("08.3", 0.5)': "✗ 08.3: se pide un número entero.",
    'check("08.1", lambda *_: 5)': "✗ 08.1: para 36 bloques que conservan 1 bytes cada uno, con entradas de 1, da 5",
    "x = 1\nnothing": "✗ tu respuesta: NameError en la línea 2: name 'nothing' is not defined.",
}


def typed(page, name="08.3"):
    """Gives a function that types an answer into an exercise of a Spanish page and waits for a text."""
    cell = page.locator(f".cell.tag_in-page[class*='exercise-{name} ']")
    cell.get_by_role("button", name="Responder aquí", exact=True).click()

    def answered(answer, said):
        cell.get_by_role("textbox").fill(answer)
        cell.get_by_role("button", name="Comprobar", exact=True).click()
        cell.locator(".cell_output", has_text=said).wait_for()

    return answered


@pytest.mark.browser
def test_a_judge_answers_in_spanish(visit):
    visited = visit("es/notebooks/08_activation_checkpointing.html")
    answered = typed(visited.page)
    for answer, said in ANSWERS.items():
        answered(answer, said)
    assert visited.troubles == []


@pytest.mark.browser
@pytest.mark.parametrize(
    "answer", ["<h1>Busy</h1>", *(pytest.param(each, marks=pytest.mark.matrix) for each in ("", "null"))]
)
def test_without_its_sentences_a_page_speaks_english(visit, answer):
    def instead(page):
        page.route(f"**/{spanish.SENTENCES.name}", lambda route: route.fulfill(body=answer, content_type="text/html"))

    visited = visit("es/notebooks/08_activation_checkpointing.html", before=instead)
    typed(visited.page)('check("08.3", 4)', "repeat less: find the pair that fits.")
    assert visited.troubles == []


def test_the_index_of_the_spanish_pages_has_their_words_alone(built):
    english, spanish_ = ((built / folder / "searchindex.js").read_text("utf-8") for folder in ("", "es"))
    assert re.search(r'"faster": ?\[', english) and '"faster"' not in spanish_ and '"burbuj"' in spanish_


@pytest.mark.browser
def test_the_search_finds_spanish_words_on_spanish_pages(visit):
    page = visit("es/search.html?q=burbujas").page
    first = page.locator("#search-results li a").first
    first.wait_for()
    links = page.locator("#search-results li a").evaluate_all("links => links.map((link) => link.pathname)")
    assert f"/{IN_SPANISH}" in links and all(link.startswith("/es/") for link in links)


@pytest.mark.browser
@pytest.mark.parametrize(
    "path", [pytest.param(IN_SPANISH), pytest.param("es/book/index.html", marks=pytest.mark.matrix)]
)
def test_in_spanish_a_page_is_accessible_and_fits_a_phone(visit, path):
    visited = visit(path, width=390, height=844, color_scheme="dark")
    assert visited.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert visited.troubles == []
    assert harness.violations(visited.page) == []


def test_the_words_of_scripts_have_as_many_holes_in_both_languages():
    words = json.loads((harness.ROOT / spanish.WORDS).read_text("utf-8"))
    holes = re.compile(r"\{#?\}")
    assert [english for english, each in words.items() if holes.findall(english) != holes.findall(each)] == []
