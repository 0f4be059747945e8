"""Put every claim to the test again, on the torch of this environment: the claims' page shows what each torch said.

    python book/tools/verdicts.py [NAME …]       all chapters, or those named (with or without .ipynb)

Notebooks are read, run and not written. A cell that stops does not end its chapter: a claim that needed what it
would have made is kept with the first error before it. ``book/verdicts.json`` holds each torch by its version; the
evidence is kept, and printed, where the verdict is another than the one that is stored in the notebook.
"""

import argparse
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

import nbformat
from execute import chosen
from nbclient import NotebookClient
from tqdm import tqdm

from compile_lab.page.claims import printed
from compile_lab.recordings import here

KEPT = Path(__file__).resolve().parents[1] / "verdicts.json"
COMMAND = "python book/tools/verdicts.py"


def tried(path: Path) -> dict[str, dict[str, str]]:
    """The verdicts of one notebook, run from top to bottom: each ``verdict`` and why, or what it ``stopped`` at."""
    notebook = nbformat.read(path, as_version=4)
    stored = {number: word for cell in claims(notebook) for number, (word, _) in told(cell).items()}
    folder = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", allow_errors=True, resources=folder)
    client.execute()
    errors = [each for cell in notebook.cells for each in cell.get("outputs", []) if each.output_type == "error"]
    said = {number: each for cell in claims(notebook) for number, each in told(cell).items()}
    found = {}
    for number, own in stored.items():
        if number not in said:
            found[number] = {"stopped": f"{errors[0].ename}: {short(errors[0].evalue)}"}
        else:
            word, why = said[number]
            found[number] = {"verdict": word} | ({"evidence": why} if word != own else {})
    return found


def claims(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The cells that put a claim to the test."""
    return [
        cell
        for cell in notebook.cells
        if any(re.fullmatch(r"claim-C\d\d", tag) for tag in cell.metadata.get("tags", []))
    ]


def told(cell: nbformat.NotebookNode) -> dict[str, tuple[str, str]]:
    """The verdicts that a cell printed, each with its evidence; none where it stopped."""
    return printed("".join(each.data["text/plain"] for each in cell.outputs if "data" in each))


def short(message: str) -> str:
    """An error's first line, and its last if that one only announces it, without folders of this machine."""
    first, *rest = message.strip().splitlines() or [""]
    line = f"{first} {rest[-1]}" if rest and first.endswith(":") else first
    return re.sub(r"(/[\w.+-]+)+/", "…/", line)[:300]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="01_graph_breaks; none: all")
    provenance = asdict(here(COMMAND, device="cpu"))
    every = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    version = provenance["torch"].partition("+")[0]  # whoever built it
    names = parser.parse_args().names
    this = every.get(version, {"claims": {}}) if names else {"claims": {}}
    paths = chosen(names)
    try:
        for path in tqdm(paths, unit="chapter"):
            this["claims"] |= tried(path)
            every[version] = {"provenance": provenance, "claims": dict(sorted(this["claims"].items()))}
            KEPT.write_text(json.dumps(every, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted: the chapters that had ended are kept")
    for number, found in sorted(this["claims"].items()):
        if why := found.get("evidence") or found.get("stopped"):
            print(f"{number} {found.get('verdict', 'not checked')}: {why}")


if __name__ == "__main__":
    main()
