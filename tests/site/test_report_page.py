"""The page of a report in a browser: it fits a phone, asks nobody, and reads in light and dark."""

import harness
import pytest

from compile_lab.report.cards import CardCode, CardCurve, CardTable, CardText, NamedFinding, ReportCard, ReportData
from compile_lab.report.model_view import page as page_of

pytestmark = pytest.mark.browser
LONG = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default"
PARTS = (
    CardTable(("where", "line", "bytes"), ((f"model.py, line 12: {LONG}", f"`{LONG}`", 123_456_789),) * 3),
    CardTable(("module", "bytes kept"), ((f"encoder.layers.0.{LONG}", 5_000),), folded="By module"),
    CardText(f"A sentence with `{LONG}` in it."),
    CardCode("triton_poi_fused_0", "def triton_poi_fused_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):\n" * 4),
    CardCurve((0, 4_000, 9_000, 2_000), 2, 2, "the peak is in the middle"),
)
PARTS += (CardText("".join(f"{number},512 kB and {number} % in {number} ms; " for number in range(100, 160))),)
CARDS = tuple(
    ReportCard(name, f"The card {name}", f"The verdict on `{LONG}`.", name, PARTS)
    for name in ("bad", "failed", "look", "good")
)
FINDING = NamedFinding("layer_index", f"Blocks are guarded on `{LONG}`.", "Told.", "Cure.")
REPORT = ReportData(
    "A model", (("called with", LONG),), CARDS, (FINDING,), 16, (f"casts: {LONG}",), "torch", (("trace", 1.2),)
)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    (folder / "report.html").write_text(page_of(REPORT), encoding="utf-8")
    (folder / "favicon.ico").write_bytes(b"")
    with harness.serve(folder) as address:
        yield address


@pytest.mark.parametrize("width", [390, 1440])
def test_it_is_no_wider_than_the_window_and_asks_nobody(shared, width):
    visited = shared("report.html", width=width)
    visited.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert visited.page.evaluate("document.documentElement.scrollWidth") == width
    assert visited.troubles == []


def test_on_a_phone_no_number_is_parted_from_its_unit(shared):
    page = shared("report.html", width=390).page
    units = page.get_by_text("and 100 %").first.evaluate(
        """text => [...text.textContent.matchAll(/\\d[\\s\\u00a0](kB|%|ms)/g)].map((found) => {
          const range = document.createRange();
          range.setStart(text.firstChild, found.index);
          range.setEnd(text.firstChild, found.index + found[0].length);
          return new Set([...range.getClientRects()].map((box) => box.top)).size;
        })"""
    )
    assert len(units) == 180 and set(units) == {1}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it_and_a_picture_has_one(shared, scheme):
    page = shared("report.html", color_scheme=scheme).page
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert harness.violations(page, every=True, runOnly=["color-contrast", "svg-img-alt"]) == []
    assert page.get_by_role("img", name="are alive").count() == len(CARDS)
