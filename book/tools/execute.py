"""Run notebooks on this environment and store what they printed: the outputs that the site shows and nbval compares.

    python book/tools/execute.py [NAME …]        all notebooks, or those named (with or without .ipynb)

A notebook is written only after its last cell has run, and all once more in the same kernel, as when a reader goes back
up: an error or an interrupt leaves the stored one as it was.
"""

import argparse
import copy
import importlib.metadata
import platform
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from shown import environment, show_all_in
from sources import LIVE, sources
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
    """Run one notebook from top to bottom, store outputs and provenance, and return the seconds it took.

    Then its cells run again, live, and only an error counts.
    """
    notebook = nbformat.read(path, as_version=4)
    cells = sum(cell.cell_type == "code" for cell in notebook.cells)
    with tqdm(total=2 * cells, desc=path.stem, unit="cell", leave=False) as bar:
        client = NotebookClient(
            notebook,
            timeout=600,
            kernel_name="python3",
            store_widget_state=False,  # the page needs none
            resources={"metadata": {"path": str(path.parent)}},
            on_cell_executed=lambda **_: bar.update(),
        )
        start = time.perf_counter()
        with client.setup_kernel(env=environment() | {PUBLISH: "1"}):
            show_all_in(client)
            run(client)
            seconds = time.perf_counter() - start
            stored = copy.deepcopy(notebook)
            notebook.cells.insert(0, nbformat.v4.new_code_cell(LIVE))
            run(client)
    for cell in stored.cells:
        cell.metadata.pop("execution", None)  # times of each cell: noise in every diff
    stored.metadata["language_info"] = {"name": "python"}
    stored.metadata["compile_lab"] = provenance(seconds) | {"sources": sources(stored)}
    half_written = path.with_suffix(".tmp")
    nbformat.write(stored, half_written)
    half_written.replace(path)
    return seconds


def run(client: NotebookClient) -> None:
    """Run its cells in its kernel. Raises CellExecutionError, and RuntimeError if the kernel dies."""
    for index, cell in enumerate(client.nb.cells):
        client.execute_cell(cell, index)


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
