"""A chapter's old address leads to where the chapter stands now, and to nothing that is not there."""

from types import SimpleNamespace

import harness
import pytest
from bs4 import BeautifulSoup
from docutils import nodes
from lab_site import moved


def test_an_old_page_has_a_title_and_one_link_and_is_in_no_index(built):
    index = (built / "searchindex.js").read_text("utf-8")
    for old, new in moved.MOVED.items():
        assert new in harness.chapters() and old not in harness.documents()
        path = built / f"{old}.html"
        page = BeautifulSoup(path.read_text("utf-8"), "html.parser")
        (link,) = page.select("a[href]")
        target = path.parent / link["href"]
        assert target.resolve() == (built / f"{new}.html").resolve() and target.exists()
        assert page.html["lang"] == "en" and page.title.get_text() == link.get_text() == page.h1.get_text()
        assert page.title.get_text()[:2] == link["href"][:2], "the chapter's number as it is now"
        assert page.select_one("link[rel=canonical]")["href"] == link["href"]
        assert page.select_one("meta[http-equiv=refresh]")["content"].endswith(f"url={link['href']}")
        assert f'"{old}"' not in index


def test_an_old_address_of_a_chapter_that_is_left_out_is_not_written(tmp_path):
    (tmp_path / "notebooks").mkdir()
    there = "notebooks/24_capstone"
    env = SimpleNamespace(found_docs={there}, titles={there: nodes.title("", "Capstone & more")})
    moved.write(SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path, env=env), None)
    (path,) = tmp_path.rglob("*.html")
    assert path.name == "19_capstone.html" and "24 Capstone &amp; more" in path.read_text("utf-8")


@pytest.mark.browser
def test_a_browser_is_led_on(visit):
    visited = visit("notebooks/19_capstone.html")
    visited.page.wait_for_url("**/notebooks/24_capstone.html")
    assert visited.page.locator("article h1").is_visible() and visited.troubles == []
