"""The page of claims: a reader chooses a verdict and an order, and searches; without a script all of it stands."""

import json
import re

import harness
import pytest
from lab_site import status, verdicts

pytestmark = pytest.mark.browser

PAGE = "book/claims.html"
CLAIMS = "div.lab-claim"


def shown(page):
    return page.eval_on_selector_all(
        f"{CLAIMS}:not([hidden])", "cards => cards.map(card => [card.dataset.number, card.dataset.kind])"
    )


def test_a_verdict_and_an_order_are_chosen_and_the_chapters_come_back(shared):
    visited = shared(PAGE)
    page, every = visited.page, shown(visited.page)
    search, first = (page.locator(each).first.bounding_box()["y"] for each in (".lab-search-cards", CLAIMS))
    assert search < first, "the search stands above what it searches"
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


def test_without_a_script_every_claim_stands_and_on_a_phone_it_fits(shared):
    assert len(shown(shared(PAGE, java_script_enabled=False).page)) > 50
    page = shared(PAGE).page
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_every_claim_has_a_sentence_to_carry_away(shared):
    page = shared(PAGE, java_script_enabled=False).page
    kept = json.loads((harness.ROOT / "book/carried_away.json").read_text("utf-8"))
    said = page.eval_on_selector_all(
        CLAIMS, "cards => cards.map(card => [card.dataset.number, card.querySelector('p').textContent])"
    )
    assert dict(said) == {claim: sentence.replace("`", "") for claim, sentence in kept.items()}
    assert len(said) == len(kept)


def test_the_status_page_says_what_each_torch_makes_of_each_chapter_and_cell(shared):
    page = shared("book/status.html", java_script_enabled=False).page
    kept = status.other_torches(harness.ROOT)
    table = page.locator("section#on-other-releases-of-torch")
    heads = table.locator("thead th").all_text_contents()
    assert heads == ["Chapter", *(f"torch {version}" for version in kept)]
    rows = [row.locator("td").all_text_contents() for row in table.locator("tbody tr").all()]
    said = [
        [status.in_words(each["cells"].get(name.rpartition("/")[2])) for each in kept.values()]
        for name in harness.chapters()
    ]
    assert [row[1:] for row in rows] == said and len(rows) == len(harness.chapters())
    moved = sum(len(cells) for each in kept.values() for cells in each["cells"].values())
    assert table.locator("li").count() == moved > 0


def test_each_claim_says_what_other_torches_say_and_why_where_it_is_something_else(shared):
    page = shared(PAGE, java_script_enabled=False).page
    kept = json.loads((harness.ROOT / "book/verdicts.json").read_text("utf-8"))
    own = {
        number: word
        for name in harness.chapters()
        for claim, _, data in verdicts.claims(harness.ROOT / f"{name}.ipynb")
        for number, word in verdicts.verdicts(data).items()
    }
    whole = [version for version, each in kept.items() if set(each["claims"]) == set(own)]
    assert len(whole) >= 2, f"of all claims only {whole} were asked: book/tools/verdicts.py"
    for version, each in kept.items():
        unasked, counts = len(set(own) - set(each["claims"])), page.locator("article").text_content()
        assert set(each["claims"]) <= set(own), f"torch {version} was asked of claims that are gone"
        said_so = re.search(rf"torch {version} gives [^;.]*\((\d+) were not run\)", counts)
        assert (int(said_so[1]) if said_so else 0) == unasked, (
            f"torch {version}: {unasked} claims are not asked, unsaid"
        )
        for number, found in each["claims"].items():
            said = page.locator(f"{CLAIMS}[data-number={number[:3]}] .lab-torches").text_content()
            line = said[said.index(f"torch {version}: ") :].partition("torch ")[2]
            part, word = number if number[3:] else "", found.get("verdict", "not checked")
            assert f"{part} {word}".strip() in line
            differs = found.get("verdict") != own[number]
            assert differs == bool(found.get("evidence") or found.get("stopped")), (version, number)
