"""No script inside a page: the site works under a strict policy, ``default-src 'self'`` and inline styles.

Sphinx and the theme write scripts into their pages. After the build each goes into a file named after its content, and
the page asks for that file in the same place; data in a script element stays. A handler in an attribute (``onclick``)
has no such file: lab.js takes over the ones that are known, and an unknown one stops the build.

One file needs more than the pages do: ``_static/live/worker.mjs``, in which a live explorer's Python runs, is to be
served with ``script-src 'self' 'wasm-unsafe-eval'`` besides, since Python is WebAssembly there. A worker has a policy
of its own, so the pages keep theirs. Without that addition the stored panels stay, and say why.
"""

import hashlib
import os
import re
from pathlib import Path

from sphinx.errors import ExtensionError

FOLDER = "_static/inline"
SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<body>.*?)</script>", re.DOTALL)
DATA = re.compile(r"""\ssrc=|type=["']?application/""")
HANDLER = re.compile(r"""\s(on[a-z]+)=("[^"]*"|'[^']*')(?=[^<>]*>)""")
TAKEN_OVER = {'onclick="window.print()"': "data-lab-print"}


def without_scripts(page: str, to_root: str, files: dict[str, str]) -> str:
    """The page with its scripts in files, which are added to ``files`` by name. ``to_root``: "../" for each folder.

    Raises ExtensionError for a handler in an attribute that lab.js does not take over.
    """

    def outside(found: re.Match) -> str:
        if DATA.search(found["attributes"]) or not found["body"].strip():
            return found[0]
        name = f"{hashlib.sha256(found['body'].encode()).hexdigest()[:12]}.js"
        files[name] = found["body"]
        return f'<script{found["attributes"]} src="{to_root}{FOLDER}/{name}"></script>'

    def handled(found: re.Match) -> str:
        handler = found[0].strip()
        if handler not in TAKEN_OVER:
            raise ExtensionError(
                f"{handler} in a page: a strict Content-Security-Policy forbids it. Let lab.js do it, and add it to "
                "TAKEN_OVER in book/_ext/lab_site/policy.py"
            )
        return f" {TAKEN_OVER[handler]}"

    parts = re.split(r"(<script[^>]*>.*?</script>|<pre.*?</pre>)", page, flags=re.DOTALL)
    texts = [part if part.startswith(("<script", "<pre")) else HANDLER.sub(handled, part) for part in parts]
    return SCRIPT.sub(outside, "".join(texts))


def apply(app, error):
    if error or app.builder.format != "html":
        return
    root, files, asked = Path(app.outdir), {}, set()
    for path in root.rglob("*.html"):
        if "_static" in path.relative_to(root).parts:
            continue
        page = path.read_text("utf-8")
        if (strict := without_scripts(page, "../" * (len(path.relative_to(root).parts) - 1), files)) != page:
            times = path.stat()
            path.write_text(strict, "utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # Sphinx renews pages by their time
        asked.update(re.findall(rf"{FOLDER}/(\w+\.js)", strict))
    for name, body in files.items():
        target = root / FOLDER / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(body, "utf-8")
    for script in (root / FOLDER).glob("*.js"):  # of an earlier build
        if script.name not in asked:
            script.unlink()


def setup(app):
    app.connect("build-finished", apply, priority=900)
