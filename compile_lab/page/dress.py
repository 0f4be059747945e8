"""The few rules without which outputs look bare where the site's style sheet is not: JupyterLab, VS Code, Colab."""

import os
import sys
from pathlib import Path

from .explore import PUBLISH

# plotly draws dark words on a white sheet, whatever the notebook's theme. Turned over, white becomes the dark of the
# page, and every hue comes back to where it was.
SHEET = """\
:is([data-jp-theme-light="false"], .vscode-dark, [theme="dark"]) .js-plotly-plot {
  filter: invert(0.93) hue-rotate(180deg);
}
.lab-verdict, .lab-outcome, .lab-trouble { margin: 0.4em 0; padding: 0.2em 1em; border-left: 3px solid #808080; }
:is(.lab-verdict, .lab-part) > p { margin: 0.2em 0; }
.lab-part { margin: 0.4em 0; padding-left: 0.8em; border-left: 3px solid #808080; }
.lab-passed, .lab-confirmed { border-left-color: #009e73; }
.lab-refuted, .lab-trouble { border-left-color: #d55e00; }
figcaption, .lab-note, .lab-machine { font-size: 0.9em; }
.lab-drawing svg { max-width: 100%; height: auto; }
""" + Path(__file__).with_name("marks.css").read_text("utf-8")


def dress() -> None:
    """Give this notebook's outputs their looks; outside a kernel, and while a page is made, there is nothing to do.

    On Colab each cell's outputs stand in a frame of their own, so each cell begins with the rules.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or os.environ.get(PUBLISH):
        return
    from IPython.display import HTML, display

    def rules(*_: object) -> None:
        display(HTML(f"<style>{SHEET}</style>"))

    rules()
    if "COLAB_RELEASE_TAG" in os.environ:
        shell.events.register("pre_run_cell", rules)
