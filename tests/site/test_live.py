"""Live explorers: Python in the reader's page gives CPython's answers, and costs nothing before it is asked."""

import itertools
import json
import re
import threading
import time
from collections.abc import Iterator

import harness
import pytest
from lab_site import live, schedules

from compile_lab._torch import distributed
from compile_lab.page.axes import whole
from compile_lab.page.live import answer

MOST_NBYTES = 6_000_000  # on the wire, once for all pages
CHAPTER = "notebooks/12_pipeline_bubbles.html"
TITLE = "Where are the bubbles?"
FIRST = {"schedule": "GPipe", "compared_with": "1F1B", "ranks": 4, "micro_batches": 8}
FIRST |= {"backward": 2, "transfer": 0, "last_stage_longer_by": 0}
PIPELINE = "compile_lab.simulator.explored_view:pipeline"


def question(**choice) -> str:
    return json.dumps({"panel": PIPELINE, "choice": FIRST | choice})


class Reader:
    """One explorer in a page, as a reader uses it."""

    def __init__(self, visit, title=TITLE):
        self.page, self.troubles = visit.page, visit.troubles
        self.explorer = self.page.locator(".lab-explorer", has=self.page.get_by_text(title, exact=True))

    def status(self) -> str:
        return self.explorer.locator(".lab-note[role=status]").inner_text()

    def panel(self) -> str:
        return self.explorer.locator(".lab-panel").inner_text()

    def type(self, axis: str, value: float) -> None:
        self.explorer.locator(f"[data-axis={axis}] input[type=number]").fill(str(value))

    def shows(self, **choice) -> bool:
        return choice.items() <= json.loads(self.explorer.get_attribute("data-shown") or "{}").items()

    def wait(self, **choice) -> None:
        """Until the panel of this choice is shown."""
        until = time.monotonic() + harness.LONGEST_S
        while not self.shows(**choice):
            assert time.monotonic() < until, f"{choice} is not shown: {self.status()}"
            self.page.wait_for_timeout(50)  # no wait_for_function: the page's policy forbids eval

    def ask(self, asked: str) -> str:
        return self.page.evaluate("asked => window.lab.ask(JSON.parse(asked))", asked)


@pytest.fixture
def requests(monkeypatch):
    """What the server is asked for: each path, and the bytes that it sends for it."""
    sent: list[tuple[str, int]] = []
    contents = harness.contents

    def counted(path, compressed):
        body = contents(path, compressed)
        sent.append((path.name, len(body)))
        return body

    monkeypatch.setattr(harness, "contents", counted)
    return sent


def of_python(requests) -> dict[str, int]:
    ours = {path.name for path in (harness.SITE / live.FOLDER).iterdir()} - {"controls.js", "answers.js"}
    return {name: nbytes for name, nbytes in requests if name in ours}


# ---- what is built --------------------------------------------------------------------------------------------------


def test_only_pages_with_something_live_have_its_controls(built):
    for path in harness.pages():
        page = (built / path).read_text("utf-8")
        something = live.EXPLORER in page or live.EXERCISE in page
        assert something == ("live/controls.js" in page) == ('name="lab-live"' in page), path
        assert (live.EXERCISE in page) == ("live/answers.js" in page), path


@pytest.mark.matrix
@pytest.mark.parametrize("schedule", [name.removeprefix("Schedule") for name in schedules.WANTED])
def test_the_cut_makes_torchs_tables_and_refuses_in_its_words(schedule, monkeypatch):
    cut: dict = {}
    exec(compile(schedules.cut(), schedules.PLACE, "exec"), cut)
    sizes = list(itertools.product((1, 2, 3, 4, 5, 8), (1, 2, 3, 4, 6, 8, 12, 16, 20)))

    def tables():
        for ranks, microbatches in sizes:
            try:
                orders = distributed.pipeline_orders(schedule, ranks, microbatches)
                yield orders, distributed.pipeline_pairs(schedule, ranks, microbatches)
            except (ValueError, AssertionError, RuntimeError) as error:
                yield type(error), str(error)

    torchs = list(tables())
    from torch.distributed.pipelining import _schedule_visualizer

    monkeypatch.setattr(_schedule_visualizer, "get_schedule_ops", cut["get_schedule_ops"])
    assert list(tables()) == torchs and any(isinstance(found[0], list) for found in torchs)


# ---- in a browser ---------------------------------------------------------------------------------------------------


@pytest.fixture
def reader(shared):
    return Reader(shared(CHAPTER))


@pytest.mark.browser
def test_nothing_is_loaded_before_a_choice_that_is_not_stored(visit, requests):
    reader = Reader(visit(CHAPTER))
    reader.explorer.locator("[data-axis=schedule] select").select_option(label="ZBVZeroBubble")
    reader.type("micro_batches", 16)
    reader.wait(schedule="ZBVZeroBubble", micro_batches=16)
    assert of_python(requests) == {} and "Python is loaded from this site, once for all pages: 5." in reader.status()
    reader.type("ranks", 5)
    reader.wait(ranks=5)
    loaded = of_python(requests)
    assert set(loaded) == {"worker.mjs", *live.SCRIPTS, f"{live.CORE}.packed", "python.zip", live.LOCK}
    assert sum(loaded.values()) < MOST_NBYTES and reader.troubles == []
    assert "any value, computed here" in reader.status()


@pytest.mark.browser
def test_while_python_loads_its_progress_is_told_and_what_is_stored_is_shown(visit, monkeypatch):
    contents, go_on = harness.contents, threading.Event()
    monkeypatch.setattr(
        harness,
        "contents",
        lambda path, packed: (path.suffix != ".packed" or go_on.wait(3 * harness.LONGEST_S)) and contents(path, packed),
    )
    reader = Reader(visit(CHAPTER))
    progress = reader.page.get_by_role("progressbar", name="Python is loading")
    assert progress.count() == 0
    reader.type("ranks", 5)
    progress.wait_for()
    until = time.monotonic() + harness.LONGEST_S
    came = re.compile(r"(1\.[5-9]|2\.\d) MB of 5\.\d MB")  # all but the core
    while not came.fullmatch(told := reader.explorer.locator(".lab-progress").inner_text().strip()):
        assert time.monotonic() < until, f"only {told!r} has come"
        reader.page.wait_for_timeout(20)
    assert reader.status() == "Python is loading …"
    reader.type("ranks", 4)
    reader.type("micro_batches", 16)
    reader.wait(ranks=4, micro_batches=16)  # and Python is still on its way
    go_on.set()
    reader.type("ranks", 6)
    reader.wait(ranks=6)
    assert progress.count() == 0 and "any value, computed here" in reader.status()


@pytest.mark.browser
def test_a_slider_tells_its_value_and_a_refused_one_is_answered_in_the_instruments_words(reader):
    slider = reader.page.get_by_role("slider", name="transfer")
    slider.focus()
    for _ in range(3):
        reader.page.keyboard.press("ArrowRight")
    reader.wait(transfer=0.15)
    assert slider.get_attribute("aria-valuetext") == "0.15 F"
    assert reader.page.get_by_label("transfer: any number").input_value() == "0.15"
    reader.type("ranks", 0)
    reader.wait(ranks=0)
    assert reader.panel() == "Not possible. ranks is 0; it must be a whole number from 1"
    reader.type("ranks", 3)
    reader.wait(ranks=3)
    assert "rank 2" in reader.explorer.locator("svg").text_content() and reader.troubles == []


@pytest.mark.browser
def test_after_200_quick_moves_the_last_one_is_shown_and_stays(reader):
    reader.type("ranks", 5)
    reader.explorer.locator("[data-axis=transfer] input[type=range]").evaluate(
        """async (slider) => {
          for (let move = 1; move <= 200; move += 1) {
            slider.value = move === 200 ? 0.35 : (move % 20) / 20;
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((later) => setTimeout(later, 3));
          }
        }"""
    )
    reader.wait(ranks=5, transfer=0.35)
    reader.ask(question(ranks=5))  # answered in turn: whatever was asked before has come
    reader.page.wait_for_timeout(200)
    assert reader.shows(ranks=5, transfer=0.35)
    shown = reader.explorer.locator(".lab-panel").evaluate("panel => panel.textContent")
    asked = question(ranks=5, transfer=0.35)
    assert reader.page.evaluate(
        "([html, shown]) => new DOMParser().parseFromString(html, 'text/html').body.textContent === shown",
        [answer(asked), shown],
    )
    assert reader.troubles == []


@pytest.mark.browser
def test_it_goes_on_without_a_network_and_the_next_page_loads_nothing(reader, requests):
    reader.ask(question(ranks=3))
    context = reader.page.context
    requests.clear()
    second = Reader(harness.Visit(context))
    second.page.goto(reader.page.url)
    context.set_offline(True)
    try:
        for each in (reader, second):
            assert each.ask(question(ranks=3, transfer=0.3)) == answer(question(ranks=3, transfer=0.3))
        assert of_python(requests) == {}
    finally:
        context.set_offline(False)
        second.page.close()


@pytest.mark.browser
def test_a_page_opened_from_a_file_says_why_it_is_not_live(browser, built):
    context = harness.context_of(browser)
    try:
        page = context.new_page()
        page.goto((built / CHAPTER).as_uri())
        explorer = page.locator(".lab-explorer", has=page.get_by_text(TITLE, exact=True))
        assert "Opened from a file" in explorer.locator("[role=status]").first.inner_text()
        assert explorer.locator("input[type=range]").count() == 0
        explorer.locator("select").first.select_option(label="DualPipeV")
        assert "DualPipeV" in explorer.locator("svg").text_content()
    finally:
        context.close()


ORDERS = (
    "F0 F1 F2 B0 F3 B1 B2 B3 | F0 F1 B0 F2 B1 F3 B2 B3 | F0 B0 F1 B1 F2 B2 F3 B3",
    "F0 F1 F2 B3 F3 B0 B1 B2 | F0 F1 F2 F3 B0 B1 B2 B3 | F0 F1 F2 F3 B0 B1 B2 B3",
    *("F0 | G0", "", "F0 B0 F0"),
)
"""Of blocks that are moved about: the best one, and what is no schedule."""


def may_be_asked(panel: str, axes: list[dict]) -> Iterator[str]:
    """Of one live explorer: the ends of each number, and each option where the numbers stand at none that is stored."""
    first = {axis["key"]: axis.get("start", axis["stored"][0]) for axis in axes}
    moved = {axis["key"]: min(2 * axis["start"] or axis["step"], axis["high"]) for axis in axes if "start" in axis}
    choices = [first, moved]
    for axis in axes:
        if "start" in axis:
            choices += [{axis["key"]: end} for end in (axis["low"], axis["high"])]
        else:
            choices += [moved | {axis["key"]: option} for option in axis.get("all", ORDERS)]
    for choice in choices:
        as_sent = {key: each if isinstance(each, str) else whole(each) for key, each in (first | choice).items()}
        yield json.dumps({"panel": panel, "choice": as_sent})


@pytest.mark.browser
def test_the_answers_of_every_live_explorer_of_the_book_are_cpythons_digit_for_digit(reader, built):
    asked, panels = {question(ranks=0), question(ranks=2.5), question(backward=-1)}, set()
    for chapter in harness.chapters():
        text = (built / f"{chapter}.html").read_text("utf-8")
        for stored in re.findall(r'class="lab-choices">(.*?)</script>', text, re.DOTALL):
            if explorer := json.loads(stored).get("live"):
                panels.add(explorer["panel"])
                asked.update(may_be_asked(**explorer))
    said = reader.page.evaluate(
        "asked => Promise.all(asked.map((each) => window.lab.ask(JSON.parse(each))))", ordered := sorted(asked)
    )
    assert [one for one, found in zip(ordered, said, strict=True) if found != answer(one)] == []
    assert len(panels) >= 12
