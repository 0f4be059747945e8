"""Run notebooks that students hand in, and list what became of each exercise: ✓ right, ✗ wrong, ○ not answered.

    python book/tools/grade.py FILE …       a line an exercise, as CSV: file, exercise, mark, what is wrong

Each notebook runs anew, in the folder of the chapters, and stays as it is: its code is the student's, so run it where
that may run. A cell that raises ends nothing; an exercise whose cell raised, or ran into the limit, is marked !.
"""

import argparse
import csv
import re
import subprocess
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
CHECKED = re.compile(r"^(?P<mark>[✓✗○]) (?P<number>\d\d\.\d+): (?P<words>.*)", re.MULTILINE)
EXERCISE = "exercise-"
FAILED = "!"


def run(path: Path, limit_s: float) -> NotebookNode:
    """The notebook, run in a fresh kernel as far as it goes."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    place = {"metadata": {"path": str(NOTEBOOKS)}}
    client = NotebookClient(notebook, timeout=limit_s, kernel_name="python3", allow_errors=True, resources=place)
    try:
        client.execute(stderr=subprocess.DEVNULL)  # the kernel's own words, of ports
    except (CellTimeoutError, DeadKernelError) as error:
        print(f"{path}: {str(error).strip().splitlines()[0]}; what comes after did not run", file=sys.stderr)
    return notebook


def marks(notebook: NotebookNode) -> dict[str, tuple[str, str]]:
    """Of each exercise its mark and what the checker said, by number; solutions do not count.

    >>> from nbformat.v4 import new_code_cell, new_notebook, new_output
    >>> said = new_output("execute_result", {"text/plain": "✗ 01.2: the graph still breaks"})
    >>> cell = new_code_cell(metadata={"tags": ["exercise-01.2"]}, outputs=[said])
    >>> other = new_code_cell(metadata={"tags": ["exercise-01.3"]})
    >>> marks(new_notebook(cells=[cell, other]))
    {'01.2': ('✗', 'the graph still breaks'), '01.3': ('!', 'its cell shows no result')}
    """
    found = {}
    for cell in notebook.cells:
        for tag in cell.metadata.get("tags", []):
            if tag.startswith(EXERCISE):
                number = tag.removeprefix(EXERCISE)
                shown = [output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])]
                checked = [each for text in shown for each in CHECKED.finditer(text) if each["number"] == number]
                result = (
                    (checked[-1]["mark"], checked[-1]["words"]) if checked else (FAILED, "its cell shows no result")
                )
                found[number] = result
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a notebook that was handed in")
    parser.add_argument("--limit-s", type=float, default=600, help="so long may one cell run (default: 600 seconds)")
    given = parser.parse_args()
    if absent := [path for path in given.files if not path.is_file()]:
        parser.error(f"{absent[0]} is not there: give the notebooks that were handed in")
    table = csv.writer(sys.stdout)
    table.writerow(["file", "exercise", "mark", "message"])
    for path in given.files:
        for number, (mark, words) in marks(run(path, given.limit_s)).items():
            table.writerow([path.name, number, mark, words])


if __name__ == "__main__":
    main()
