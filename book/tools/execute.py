"""Run notebooks on this environment and store what they printed: the outputs that the site shows and nbval compares.

    python book/tools/execute.py [NAME …]        all notebooks, or those named (with or without .ipynb)

A notebook is written only after its last cell has run: an error or an interrupt leaves the stored one as it was.
"""

import argparse
import importlib.metadata
import os
import platform
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from tqdm import tqdm

from compile_lab.page.explore import PUBLISH
from compile_lab.recordings import here

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def chosen(names: list[str], folder: Path = NOTEBOOKS) -> list[Path]:
    """The notebooks named, or all of them. Raises SystemExit, listing what there is, for one that is not there."""
    known = {path.stem: path for path in sorted(folder.glob("*.ipynb"))}
    wanted = [name.removesuffix(".ipynb").rpartition("/")[2] for name in names] or list(known)
    if missing := [name for name in wanted if name not in known]:
        raise SystemExit(f"no notebook {missing[0]!r} in notebooks/; there are: {', '.join(known)}")
    return [known[name] for name in wanted]


def execute(path: Path) -> float:
    """Run one notebook from top to bottom, store outputs and provenance, and return the seconds it took."""
    notebook = nbformat.read(path, as_version=4)
    cells = sum(cell.cell_type == "code" for cell in notebook.cells)
    start = time.perf_counter()
    with tqdm(total=cells, desc=path.stem, unit="cell", leave=False) as bar:
        client = NotebookClient(
            notebook,
            timeout=600,
            kernel_name="python3",
            store_widget_state=False,  # the page needs none
            resources={"metadata": {"path": str(path.parent)}},
            on_cell_executed=lambda **_: bar.update(),
        )
        client.execute(env={**os.environ, PUBLISH: "1"})
    seconds = time.perf_counter() - start
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of each cell: noise in every diff
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata["compile_lab"] = provenance(seconds)
    half_written = path.with_suffix(".tmp")
    nbformat.write(notebook, half_written)
    half_written.replace(path)
    return seconds


def provenance(seconds: float) -> dict[str, str | float]:
    """When, on what and how fast a notebook ran: the site's status page shows it."""
    known = here("make execute")
    return {
        "executed": known.date,
        "seconds": round(seconds, 1),
        "python": platform.python_version(),
        "torch": known.torch,
        "triton": known.triton or "none",
        "numpy": importlib.metadata.version("numpy"),
        "device": known.device if known.cuda else known.cpu or known.device,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="01_graph_breaks; none: all")
    for path in chosen(parser.parse_args().names):
        try:
            print(f"{path.name}: {execute(path):.1f} s")
        except CellExecutionError as error:
            sys.exit(f"{path.name} stopped, and its stored outputs are as they were:\n{error}")
        except KeyboardInterrupt:
            sys.exit(f"\ninterrupted: {path.name} is as it was")


if __name__ == "__main__":
    main()
