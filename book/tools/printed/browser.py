"""Chromium, which draws the site's plots, prints, and writes well-formed XHTML. It reaches the built site alone."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, Route, sync_playwright

from printed.articles import PrintError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
NO_BROWSER = (
    "Chromium or Chrome is not on PATH, and it prints the book: apt install chromium (macOS: brew install chromium)"
)
HOST = "http://book.invalid"
PATIENCE_MS = 600_000
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
PICTURES = """async () => Promise.all([...document.querySelectorAll("article .lab-plot")].map(async (plot) => {
  if (!plot.classList.contains("lab-drawn")) return null;
  const said = await Plotly.toImage(plot, { format: "svg" });
  return decodeURIComponent(said.replace(/^[^,]*,/, ""));
}))"""
SERIALIZE = "() => new XMLSerializer().serializeToString(document)"


def shared_file(site: Path, path: str) -> Path:
    """A file of the site; a site in another language lies in a folder of the whole, whose other files serve both."""
    return site / path if (site / path).is_file() else site.parent / path


class Press:
    """A browser that is shown a site's files and pages made here, and asks nobody for anything else."""

    def __init__(self, context: BrowserContext, site: Path) -> None:
        self.context, self.site = context, site
        self.made: dict[str, str] = {}
        context.set_default_timeout(PATIENCE_MS)
        context.route("**/*", self.answer)

    def answer(self, route: Route) -> None:
        address = route.request.url.partition("?")[0].partition("#")[0]
        path = address.removeprefix(f"{HOST}/")
        if path in self.made:
            route.fulfill(body=self.made[path], content_type="text/html; charset=utf-8")
        elif address.startswith(HOST) and (file := shared_file(self.site, path)).is_file():
            route.fulfill(path=file)
        else:
            route.abort()

    def pictures(self, name: str) -> list[str | None]:
        """The SVG of each plot of a page of the site, drawn as for paper; None for one that is not in sight there."""
        page = self.context.new_page()
        page.add_init_script("window.print = () => (window.wasPrinted = true)")
        page.goto(f"{HOST}/{name}.html")
        page.evaluate("document.documentElement.dataset.theme = 'light'")
        page.evaluate("document.querySelector('[data-lab-print]').click()")
        page.wait_for_function("() => window.wasPrinted")
        drawn = page.evaluate(PICTURES)
        page.close()
        return drawn

    def pdf(self, html: str, footer: str, scale: float) -> bytes:
        """A page printed on A4, with tags. ``footer`` is Chromium's template; without one only text is painted."""
        page = self.shown(html)
        printed = page.pdf(
            format="A4",
            tagged=True,
            outline=False,
            print_background=bool(footer),
            scale=scale,
            display_header_footer=bool(footer),
            header_template="<span></span>",
            footer_template=footer or "<span></span>",
            margin={"top": "17mm", "bottom": "18mm", "left": "18mm", "right": "18mm"},
        )
        page.close()
        return printed

    def xhtml(self, html: str) -> str:
        """A page as well-formed XHTML, SVG and MathML in their namespaces."""
        page = self.shown(html)
        text = page.evaluate(SERIALIZE)
        page.close()
        return text

    def shown(self, html: str) -> Page:
        self.made["printed.html"] = html
        page = self.context.new_page()
        page.emulate_media(media="print", color_scheme="light")
        page.goto(f"{HOST}/printed.html")
        page.evaluate("document.fonts.ready.then(() => true)")
        return page


@contextmanager
def press(site: Path) -> Iterator[Press]:
    """A press on a built site. Raises PrintError if there is no browser."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        raise PrintError(NO_BROWSER)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield Press(browser.new_context(viewport={"width": 900, "height": 1200}), site)
        finally:
            browser.close()
