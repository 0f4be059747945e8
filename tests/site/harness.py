"""The built site on loopback, and a Chromium that can reach nothing else."""

import functools
import gzip
import http.server
import json
import mimetypes
import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build/html"
AXE = ROOT / "book/node_modules/axe-core/axe.min.js"
SAMPLE = ("book/index", "notebooks/00_eager_baseline", "notebooks/12_pipeline_bubbles")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'"
"""Every page is tested as a careful host would serve it: no script inside a page, nothing from anywhere else."""
WORKER_POLICY = f"{POLICY}; script-src 'self' 'wasm-unsafe-eval'"
"""Only the worker in which a live explorer's Python runs gets more: it is WebAssembly, which has to be allowed."""
COMPRESSED = ("text", "javascript", "json", "svg")
LONGEST_S = 300
"""A wait for what has to come ends after so long: then it does not come. No test is about how quick a machine is."""
PATIENT = """(limits) => addEventListener("load", () => Object.assign(window.lab?.python?.limits ?? {}, limits))"""
"""A live page's own limits, for a machine that does other work, too; `hurry` puts another in its place."""


def find_browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves like a public host: text compressed with gzip, connections kept open."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        compressed = any(word in kind for word in COMPRESSED)
        body = contents(path, compressed)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", WORKER_POLICY if path.name == "worker.mjs" else POLICY)
        self.send_header("Cache-Control", "max-age=600")
        self.send_header("Content-Length", str(len(body)))
        if compressed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)


@functools.cache
def contents(path: Path, compressed: bool) -> bytes:
    return gzip.compress(path.read_bytes(), 6) if compressed else path.read_bytes()


@contextmanager
def serve(folder: Path):
    """The folder's address on an ephemeral loopback port."""
    handler = functools.partial(Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def documents() -> list[str]:
    """What ``_toc.yml`` lists, in order: ``book/index``, ``notebooks/01_graph_breaks``, …"""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    return [contents["root"], *(chapter["file"] for part in contents["parts"] for chapter in part["chapters"])]


def chapters() -> list[str]:
    return [document for document in documents() if document.startswith("notebooks/")]


def pages() -> list[str]:
    """Every page that the site must have."""
    return [*(f"{document}.html" for document in documents()), "search.html"]


def sampled(paths: list[str], sample=SAMPLE) -> list:
    """Parameters of a test of each page: in `make test` a few of them, in `make test-all` every one."""
    marks = {True: (), False: pytest.mark.matrix}
    return [pytest.param(path, marks=marks[path.removesuffix(".html") in sample]) for path in paths]


def stale() -> str | None:
    """Why the built site cannot be tested, or None."""
    start = SITE / "index.html"
    if not start.exists():
        return "The site is not built (_build/html/index.html is missing). Run 'make book', then the tests again."
    sources = [ROOT / "_config.yml", ROOT / "_toc.yml", *ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("book/*.*")]
    folders = [ROOT / "book" / name for name in ("_ext", "_templates", "site_static", "images")]
    live = ("compile_lab/page", "compile_lab/simulator", "chapters/exercises")
    folders += [ROOT / name for name in live]
    sources += ROOT.glob("chapters/*/in_page.py")
    sources += [path for folder in folders for path in folder.rglob("*.*") if path.suffix != ".pyc"]
    newest = max(sources, key=lambda path: path.stat().st_mtime)
    if newest.stat().st_mtime > start.stat().st_mtime:
        name = newest.relative_to(ROOT)
        return f"The built site is older than {name}. Run 'make book', then the tests again."
    return None


class Visit:
    """One page in a fresh context, with everything that went wrong on it."""

    def __init__(self, context):
        self.page = context.new_page()
        self.troubles: list[str] = []
        self.page.on("console", self.said)
        self.page.on("pageerror", lambda error: self.troubles.append(f"script error: {error}"))
        self.page.on("response", lambda r: r.status >= 400 and self.troubles.append(f"{r.status}: {r.url}"))
        self.page.on("requestfailed", self.failed)
        self.page.on("request", self.asked)

    def said(self, message):
        """A page that names no icon, as the one that only leads on, is asked for /favicon.ico by the browser alone."""
        if message.type == "error" and not message.location["url"].endswith("/favicon.ico"):
            self.troubles.append(f"console: {message.text}")

    def failed(self, request):
        """Chromium fetches a page's icon last, and leaving the page cuts it off; one that is missing answers 404."""
        if not (request.url.endswith("/favicon.svg") and request.failure == "net::ERR_ABORTED"):
            self.troubles.append(f"failed: {request.url}")

    def asked(self, request):
        """Only listens: a route, even one that lets everything through, keeps the browser from its cache."""
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            self.troubles.append(f"asked a third party: {request.url}")


def context_of(browser, **options):
    """A browser's context in which every wait, and every limit of a live page, is long."""
    context = browser.new_context(**options)
    context.set_default_timeout(1000 * LONGEST_S)
    limits = dict.fromkeys(("silent", "whole", "panel", "answer"), 1000 * LONGEST_S)
    context.add_init_script(f"({PATIENT})({json.dumps(limits)})")
    return context


def violations(page, within=None, every=False, **options) -> list[str]:
    """What axe finds on a page, or in what a selector names, that is serious, or `every` fault."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))  # as a script that is put into the page the policy would forbid it
    found = page.evaluate(
        "async ([within, options]) => (await axe.run(within ?? document, options)).violations",
        [within, {"resultTypes": ["violations"], **options}],
    )
    return [
        f"{violation['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for violation in found
        if every or violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def hurry(page, **limits):
    """Limits of a live page, in ms, that one of its faults has to meet."""
    page.evaluate("limits => Object.assign(window.lab.python.limits, limits)", limits)


@contextmanager
def visiting(browser, address):
    """Gives a function that opens a page in a context of its own; at the end the contexts are closed."""
    contexts = []

    def open_page(path, width=1280, height=900, before=None, **options):
        contexts.append(context_of(browser, viewport={"width": width, "height": height}, **options))
        visited = Visit(contexts[-1])
        if before:
            before(visited.page)
        visited.page.goto(f"{address}/{path}", wait_until="load")
        return visited

    yield open_page
    for context in contexts:
        context.close()
