"""Run chapters on this machine as its reader would, and say which cells raise or write to stderr. Nothing is stored.

    python book/tools/rehearse.py [NAME …] [--at-once 5]       all chapters, or those named (with or without .ipynb)

The outputs that a page stores come from a CPU (``execute.py``); a reader on Colab has a GPU, one on a server several.
A cell that raises does not end its chapter. Exits with 1 if any cell raised or wrote to stderr.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import nbformat
from execute import chosen
from nbclient import NotebookClient
from tqdm import tqdm


def troubles(path: Path) -> list[str]:
    """What went wrong in one chapter, a line for each cell that raised or wrote to stderr."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    return [f"{path.name}, {each}" for number, cell in enumerate(notebook.cells) for each in troubles_of(number, cell)]


KNOWN_WARNING = "Not enough SMs to use max_autotune_gemm mode"
"""What torch logs on a smaller GPU, where `preflight` has said it in the chapter's second cell."""


def troubles_of(number: int, cell: nbformat.NotebookNode) -> Iterator[str]:
    """A line if this cell raised, and one for each time that it wrote to stderr."""
    expected = "raises-exception" in cell.metadata.get("tags", [])
    for output in cell.get("outputs", []):
        if output.output_type == "error" and not expected:
            yield f"cell {number} raises {output.ename}: {_ends(output.evalue)}"
        elif output.output_type == "stream" and output.name == "stderr" and (text := _unsaid(output.text)):
            yield f"cell {number} writes to stderr: {_ends(text)}"


def _unsaid(text: str) -> str:
    return "\n".join(line for line in text.strip().splitlines() if not line.endswith(KNOWN_WARNING))


def _ends(text: str, most: int = 500) -> str:
    """Its beginning and its end: what failed stands in one, and why in the other."""
    return text if len(text) <= 2 * most else f"{text[:most]} … {text[-most:]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="01_graph_breaks; none: all")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="so many chapters at a time (default: 1)")
    given = parser.parse_args()
    if given.at_once < 1:
        parser.error(f"--at-once is {given.at_once}: at least one chapter runs at a time")
    start, paths, count = time.perf_counter(), chosen(given.names), 0
    with ThreadPoolExecutor(given.at_once) as pool:
        runs = {pool.submit(troubles, path): path for path in paths}
        for ended in tqdm(as_completed(runs), total=len(paths)):
            tqdm.write(f"{runs[ended].stem}: {len(found := ended.result())} troubles")
            for line in found:
                tqdm.write(line)
            count += len(found)
    print(f"{len(paths)} chapters in {time.perf_counter() - start:.0f} s: {count} troubles")
    sys.exit(bool(count))


if __name__ == "__main__":
    main()
