"""``_config.yml`` for Sphinx alone: ``make book SPHINX=plain`` builds the book without Jupyter Book 1.

Each setting gets the name that Sphinx, an extension or the theme has for it. One that has no name here is an error.
"""

import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
HERE = "book/sphinx"

NAMES = {
    "title": "html_title",
    "author": "author",
    "copyright": "copyright",
    "logo": "html_logo",
    "only_build_toc_files": "external_toc_exclude_missing",
    "exclude_patterns": "exclude_patterns",
    "bibtex_bibfiles": "bibtex_bibfiles",
    "execute.execute_notebooks": "nb_execution_mode",
    "parse.myst_enable_extensions": "myst_enable_extensions",
    "repository.url": "html_theme_options.repository_url",
    "repository.branch": "html_theme_options.repository_branch",
    "repository.path_to_book": "html_theme_options.path_to_docs",
    "launch_buttons.colab_url": "html_theme_options.launch_buttons.colab_url",
    "html.favicon": "html_favicon",
    "html.use_repository_button": "html_theme_options.use_repository_button",
    "html.use_issues_button": "html_theme_options.use_issues_button",
    "html.use_edit_page_button": "html_theme_options.use_edit_page_button",
    "html.home_page_in_navbar": "html_theme_options.home_page_in_toc",
}
"""What Jupyter Book calls a setting, and what Sphinx does; a dot is one step into a dictionary."""
ITS_OWN = ("latex.use_jupyterbook_latex", "sphinx.recursive_update", "sphinx.local_extensions", "sphinx.config")
"""About Jupyter Book, or read below by name."""
EXTENSIONS_LEFT_OUT = ("jupyter_book", "sphinx_comments")
"""Jupyter Book itself, and an extension that is there for a key that it sets."""
PATHS = ("html_logo", "html_favicon", "templates_path", "html_static_path", "bibtex_bibfiles")
"""Sphinx looks for these from beside this file; ``_config.yml`` names them from the repository's root."""
OTHERWISE = {
    "html_theme": "sphinx_book_theme",
    "html_sourcelink_suffix": "",
    "myst_url_schemes": ["mailto", "http", "https"],
    "external_toc_path": "_toc.yml",
}
"""What Jupyter Book sets for every book, and Sphinx, an extension or the theme does not."""
NEW_IN_THEME = {"navbar_persistent": []}
"""Without it the newest theme shows a second field for the search, in a bar of its own above each page."""


def settings(config: dict, root: Path = ROOT) -> dict:
    """What ``_config.yml``, read as ``config``, says to Sphinx. Raises ValueError for a setting with no name here."""
    found: dict = {**OTHERWISE, "html_theme_options": dict(NEW_IN_THEME)}
    for name, value in flat(config).items():
        if name in NAMES:
            put(found, NAMES[name], value)
        elif name not in ITS_OWN:
            raise ValueError(f"_config.yml has {name}, and book/sphinx/conf.py has no name for it: add it to NAMES")
    for name, value in config["sphinx"]["config"].items():
        found[name] = found[name] | value if isinstance(found.get(name), dict) else value
    found["extensions"] = [name for name in found["extensions"] if name not in EXTENSIONS_LEFT_OUT]
    found["html_css_files"] = [*found["html_css_files"], "newest.css"]
    found["html_static_path"] = [*found["html_static_path"], f"{HERE}/static"]
    found["templates_path"] = [f"{HERE}/templates", *found["templates_path"]]
    for name in PATHS:
        path = found[name]
        found[name] = [str(root / each) for each in path] if isinstance(path, list) else str(root / path)
    return found


def flat(config: dict) -> dict:
    """Settings by their names, one step in: ``{"html": {"favicon": x}}`` is ``{"html.favicon": x}``."""
    steps = {name: value if isinstance(value, dict) else {"": value} for name, value in config.items()}
    return {f"{name}.{inner}".rstrip("."): value for name, step in steps.items() for inner, value in step.items()}


def put(target: dict, name: str, value: object) -> None:
    *steps, last = name.split(".")
    for step in steps:
        target = target.setdefault(step, {})
    target[last] = value


CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
sys.path += [str(ROOT / folder) for folder in CONFIG["sphinx"]["local_extensions"].values()]
globals().update(settings(CONFIG))
