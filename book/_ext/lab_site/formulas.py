"""Formulas, typeset once by MathJax while building: drawings plus MathML for screen readers, and no script in the page.

MathJax in the browser weighs 320 kB with its fonts; a formula drawn ahead weighs one or two.
"""

import json
import subprocess
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

from .assets import node_program

MATHJAX = "book/node_modules/mathjax/es5/node-main.js"
logger = logging.getLogger(__name__)


@cache
def typesetter(root: str) -> subprocess.Popen:
    """One node process a build, started by the first formula; it ends when the build closes its input."""
    command = [node_program(), str(Path(__file__).with_name("typeset.cjs")), str(Path(root) / MATHJAX)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")


@cache
def typeset(root: str, tex: str, display: bool) -> dict:
    """``{"html": ...}``, or ``{"error": ...}`` for a formula that MathJax cannot read."""
    process = typesetter(root)
    process.stdin.write(json.dumps({"tex": tex, "display": display}) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def formula(translator, node, display: bool) -> str:
    answer = typeset(str(translator.builder.srcdir), node.astext(), display)
    if "error" in answer:
        logger.warning("formula %r: %s", node.astext(), answer["error"], location=node)
    return answer.get("html", "")


def visit_inline(translator, node):
    translator.body.append(translator.starttag(node, "span", "", CLASS="math"))
    translator.body.append(formula(translator, node, display=False) + "</span>")
    raise nodes.SkipNode


def visit_block(translator, node):
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node["number"]:
        translator.body.append(f'<span class="eqno">({get_node_equation_number(translator, node)})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append(formula(translator, node, display=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("typeset", (visit_inline, None), (visit_block, None))
