"""Fixtures of the site's tests: the built book, served on loopback, and a browser that reaches nothing else."""

import os

import harness
import pytest
from playwright.sync_api import expect, sync_playwright

NO_BROWSER = "NO BROWSER: Chromium or Chrome is not on PATH, so the site was not tested in one (apt install chromium)"
MOST_OPEN = 4


@pytest.fixture(scope="session")
def built():
    """The folder of the built site; a failure if it is missing or older than what it is built from."""
    if trouble := harness.stale():
        pytest.fail(trouble, pytrace=False)
    return harness.SITE


@pytest.fixture(scope="session")
def address(built):
    with harness.serve(built) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    path = harness.find_browser()
    if path is None:
        (pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip)(NO_BROWSER)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=harness.ARGUMENTS, timeout=1000 * harness.LONGEST_S
        )
        expect.set_options(timeout=1000 * harness.LONGEST_S)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, address):
    """``visit("book/index.html", width=390, color_scheme="dark")`` opens a page in a context of its own."""
    with harness.visiting(browser, address) as open_page:
        yield open_page


@pytest.fixture(scope="module")
def shared(browser, address):
    """``shared("book/index.html", width=390)``: that page, opened once for all of a file's tests that ask for it so.

    A page that was not asked for while `MOST_OPEN` others were is closed, and opened anew.
    """
    kept = {}
    with harness.visiting(browser, address) as open_page:

        def open_once(path, **options):
            asked = (path, *sorted(options.items()))
            kept[asked] = kept.pop(asked, None) or open_page(path, **options)
            if len(kept) > MOST_OPEN:
                kept.pop(next(iter(kept))).page.context.close()
            return kept[asked]

        yield open_once


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", [])
    if any(NO_BROWSER in str(report.longrepr) for report in skipped):
        terminalreporter.section("the site")
        terminalreporter.write_line(NO_BROWSER, red=True, bold=True)
