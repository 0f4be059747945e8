"""Pages of cards: claims, graph breaks, hangs, reports. A reader chooses and searches; without a script all stands."""

import json
import re

import harness
import nbformat
import pytest
from bs4 import BeautifulSoup
from lab_site import verdicts

PAGE = "book/claims.html"
BREAKS = "book/break_atlas.html"
HANGS = "book/hang_lab.html"
CLAIMS = "div.lab-claim"
CARDS = "details.lab-break"


def recorded(name, what):
    path = harness.ROOT / f"book/recordings/cpu-2-cores/{name}.json"
    return json.loads(path.read_text("utf-8"))["result"][what]


def shown(page):
    return page.eval_on_selector_all(
        f"{CLAIMS}:not([hidden])", "cards => cards.map(card => [card.dataset.number, card.dataset.kind])"
    )


@pytest.mark.browser
def test_a_verdict_and_an_order_are_chosen_and_the_chapters_come_back(shared):
    visited = shared(PAGE)
    page, every = visited.page, shown(visited.page)
    assert len(every) > 50 and {word for _, kinds in every for word in kinds.split()} == {"confirmed", "refuted"}
    page.get_by_label("Order").select_option("by number")
    assert shown(page) == sorted(every) and page.locator("section > h2:visible", has_text="Pipeline").count() == 0
    page.get_by_label("Order").select_option("refuted first")
    with_a_no = ["refuted" in kinds for _, kinds in shown(page)]
    assert with_a_no == sorted(with_a_no, reverse=True)
    refuted = with_a_no.count(True)
    page.get_by_label("Show").select_option(f"refuted ({refuted})")
    assert len(shown(page)) == refuted and all("refuted" in kinds for _, kinds in shown(page))
    assert page.locator(".lab-search-cards [role=status]").text_content() == f"{refuted} of {len(every)}"
    page.get_by_label("Show").select_option("all")
    page.get_by_label("Order").select_option("by chapter")
    assert shown(page) == every and page.locator("section:not([hidden]) > h2:visible", has_text="Pipeline").count() == 1
    page.get_by_label("Search the claims").fill("FSDP")
    assert 0 < len(shown(page)) < len(every) and not visited.troubles


@pytest.mark.browser
def test_a_search_leaves_the_cards_with_all_words_and_a_theme_is_chosen_by_keyboard(shared):
    visited, entries = shared(BREAKS), recorded("break_atlas", "entries")
    page, left = visited.page, visited.page.locator(f"{CARDS}:not([hidden])")
    page.get_by_label("Search the atlas").fill("gb0170 sum")
    assert 0 < left.count() < len(entries) and all("GB0170" in text for text in left.all_text_contents())
    assert page.locator(".lab-search-cards [role=status]").text_content() == f"{left.count()} of {len(entries)}"
    assert page.locator("article h3:visible").count() == page.locator("section:not([hidden]) > h3:visible").count() < 5
    page.get_by_label("Search the atlas").fill("")
    assert left.count() == len(entries)
    page.get_by_label("Show").focus()
    page.keyboard.type("data dep")
    assert left.count() == sum(each["theme"] == "data dependence" for each in entries)
    assert page.locator("article h3:visible").all_text_contents() == ["Data dependence"] and not visited.troubles


@pytest.mark.browser
@pytest.mark.parametrize("path", [PAGE, HANGS])
def test_open_cards_fit_a_phone(visit, path):
    visited = visit(path, width=390, height=844)
    visited.page.evaluate("document.querySelectorAll('.lab-hang, .lab-hang details').forEach(each => each.open = true)")
    assert visited.page.evaluate("document.documentElement.scrollWidth") <= 390 and not visited.troubles


@pytest.mark.browser
def test_each_card_of_a_report_leads_to_one_that_needs_nothing_else(visit):
    visited, names = visit("book/your_model.html", width=390, height=844), list(recorded("architectures", "reports"))
    page = visited.page
    links = page.locator(".lab-report-card a")
    assert links.all_text_contents() == names and len(names) == 6
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    links.first.click()
    page.wait_for_url("**/reports/*.html")
    assert page.locator("h1").text_content() == names[0]
    assert page.locator("script, link[rel=stylesheet]").count() == 0
    assert page.locator("section.bad, section.look, section.good, section.failed").count() >= 8
    assert page.evaluate("document.documentElement.scrollWidth") <= 390 and not visited.troubles


# ---- what is built, which no script has to make ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def claims(built):
    return BeautifulSoup((built / PAGE).read_text("utf-8"), "lxml")


@pytest.fixture(scope="module")
def own():
    """The verdicts that the notebooks have stored, by number."""
    return {
        number: word
        for name in harness.chapters()
        for _, _, data in verdicts.claims(harness.ROOT / f"{name}.ipynb")
        for number, word in verdicts.verdicts(data).items()
    }


def test_all_breaks_and_hangs_have_their_card(built):
    pages = [BeautifulSoup((built / path).read_text("utf-8"), "lxml") for path in (BREAKS, HANGS)]
    assert len(pages[0].select(CARDS)) == len(recorded("break_atlas", "entries"))
    cards, cases = pages[1].select("details.lab-hang"), recorded("hangs", "cases")
    assert len(cases) >= 8
    for card, case in zip(cards, cases, strict=True):
        assert all(words in card.get_text() for words in (case["ours"], case["expected"], "What torch says"))
        assert len(card.select(".lab-mark")) == len(case["marked"]) > 0


def test_the_page_of_claims_gathers_every_verdict_with_a_sentence_to_carry_away(claims):
    tagged = [
        tag.removeprefix("claim-")
        for name in harness.chapters()
        for cell in nbformat.read(harness.ROOT / f"{name}.ipynb", as_version=4).cells
        for tag in cell.metadata.get("tags", [])
        if re.fullmatch(r"claim-C\d\d", tag)
    ]
    assert [verdict.strong.get_text().split(",")[0] for verdict in claims.select(".lab-verdict")] == tagged
    kept = json.loads((harness.ROOT / "book/carried_away.json").read_text("utf-8"))
    said = {card["data-number"]: card.p.get_text() for card in claims.select(CLAIMS)}
    assert said == {claim: sentence.replace("`", "") for claim, sentence in kept.items()}
    assert len(said) == len(tagged) and claims.select(".lab-silent")


def test_each_claim_says_what_other_torches_say_and_why_where_it_is_something_else(claims, own):
    kept = json.loads((harness.ROOT / "book/verdicts.json").read_text("utf-8"))
    whole = [version for version, each in kept.items() if set(each["claims"]) == set(own)]
    assert len(whole) >= 2, f"of all claims only {whole} were asked: book/tools/verdicts.py"
    cards = {card["data-number"]: card.select_one(".lab-torches").get_text() for card in claims.select(CLAIMS)}
    for version, each in kept.items():
        assert set(each["claims"]) <= set(own), f"torch {version} was asked of claims that are gone"
        unasked = len(set(own) - set(each["claims"]))
        said_so = re.search(rf"torch {version} gives [^;.]*\((\d+) were not run\)", claims.article.get_text())
        assert (int(said_so[1]) if said_so else 0) == unasked, f"torch {version}: {unasked} are not asked, unsaid"
        for number, found in each["claims"].items():
            line = cards[number[:3]].partition(f"torch {version}: ")[2].partition("torch ")[0]
            part, word = number if number[3:] else "", found.get("verdict", "not checked")
            assert line and f"{part} {word}".strip() in line
            differs = found.get("verdict") != own[number]
            assert differs == bool(found.get("evidence") or found.get("stopped")), (version, number)
