"""The page of the library: what each of its faces hands out, with the examples that the tests run.

Sphinx's autodoc reads the docstrings; each face's ``__all__`` says which names there are. Constants are left out.
"""

import importlib
import inspect

from sphinx.util.docutils import SphinxDirective


class Api(SphinxDirective):
    """``{lab-api}``: a section for each face named in its content, with all that it hands out."""

    has_content = True

    def run(self):
        text = "\n\n".join(map(section, filter(None, self.content)))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def section(face: str) -> str:
    """A face as Markdown: its name, the question that it answers, and autodoc's words for what it hands out.

    >>> print(section("compile_lab.eager").splitlines()[0])
    ## compile_lab.eager
    """
    module = importlib.import_module(face)
    question = inspect.getdoc(module).partition("\n\n")[0].replace("``", "`")
    doors = {name: getattr(module, name) for name in module.__all__}
    named = [
        f".. auto{'class' if inspect.isclass(door) else 'function'}:: {face}.{name}\n"
        for name, door in doors.items()
        if callable(door)
    ]
    return "\n".join([f"## {face}\n\n{question}\n\n```{{eval-rst}}", *named, "```"])


def setup(app):
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("lab-api", Api)
