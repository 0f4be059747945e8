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

from compile_lab.page.claims import VERDICTS
from compile_lab.recordings import here

KEPT = Path(__file__).resolve().parents[1] / "verdicts.json"
COMMAND = "python book/tools/verdicts.py"


def tried(path: Path) -> dict[str, dict[str, str]]:
    """The claims of one notebook, run from top to bottom: ``verdict`` and ``evidence``, or what each ``stopped`` at."""
    notebook = nbformat.read(path, as_version=4)
    stored = {claim: told(cell) for claim, cell in claims(notebook)}
    folder = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", allow_errors=True, resources=folder)
    client.execute()
    errors = [each for cell in notebook.cells for each in cell.get("outputs", []) if each.output_type == "error"]
    found = {}
    for claim, cell in claims(notebook):
        word, evidence = told(cell)
        if not word:
            found[claim] = {"stopped": f"{errors[0].ename}: {short(errors[0].evalue)}"}
        else:
            found[claim] = {"verdict": word} | ({"evidence": evidence} if word != stored[claim][0] else {})
    return found


def claims(notebook: nbformat.NotebookNode) -> list[tuple[str, nbformat.NotebookNode]]:
    """Each claim's id and cell."""
    tags = [(tag, cell) for cell in notebook.cells for tag in cell.metadata.get("tags", [])]
    return [(tag.removeprefix("claim-"), cell) for tag, cell in tags if re.fullmatch(r"claim-C\d\d", tag)]


def told(cell: nbformat.NotebookNode) -> tuple[str | None, str]:
    """The verdict and the evidence that a cell printed; None if it printed none."""
    said = next((each.data["text/plain"] for each in cell.outputs if "data" in each), "")
    word = re.match(rf"C\d\d ({'|'.join(VERDICTS)}): ", said)
    return (word[1], said.partition("\n")[2]) if word else (None, "")


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
    this = every.get(version, {"claims": {}})
    paths = chosen(parser.parse_args().names)
    try:
        for path in tqdm(paths, unit="chapter"):
            this["claims"] |= tried(path)
            every[version] = {"provenance": provenance, "claims": dict(sorted(this["claims"].items()))}
            KEPT.write_text(json.dumps(every, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted: the chapters that had ended are kept")
    for claim, found in sorted(this["claims"].items()):
        if why := found.get("evidence") or found.get("stopped"):
            print(f"{claim} {found.get('verdict', 'cannot be told')}: {why}")


if __name__ == "__main__":
    main()
