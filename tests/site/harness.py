"""The built site on loopback, and a Chromium that can reach nothing else."""

import functools
import gzip
import http.server
import mimetypes
import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build/html"
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
COMPRESSED = ("text", "javascript", "json", "svg")


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


def pages() -> list[str]:
    """Every page of the site, as a path below its root."""
    found = (path.relative_to(SITE) for path in SITE.rglob("*.html"))
    return sorted(path.as_posix() for path in found if path.parts[0] != "_static" and path.as_posix() != "index.html")


class Visit:
    """One page in a fresh context, with everything that went wrong on it."""

    def __init__(self, context):
        self.page = context.new_page()
        self.troubles: list[str] = []
        self.page.on("console", lambda m: m.type == "error" and self.troubles.append(f"console: {m.text}"))
        self.page.on("pageerror", lambda error: self.troubles.append(f"script error: {error}"))
        self.page.on("response", lambda r: r.status >= 400 and self.troubles.append(f"{r.status}: {r.url}"))
        self.page.on("requestfailed", lambda request: self.troubles.append(f"failed: {request.url}"))
        self.page.route("**/*", self.only_loopback)

    def only_loopback(self, route):
        address = route.request.url
        if address.startswith(("http://127.0.0.1:", "data:", "blob:")):
            route.continue_()
        else:
            self.troubles.append(f"asked a third party: {address}")
            route.abort()
