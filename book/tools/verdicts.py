"""Run the chapters on the torch of this environment: what each claim comes to, and which cells say something else.

    python book/tools/verdicts.py [NAME …]       all chapters, or those named (with or without .ipynb)

Notebooks are read, run and not written. A cell that stops does not end its chapter: a claim that needed what it
would have made is kept with the first error before it. ``book/verdicts.json`` holds each torch by its version; the
evidence is kept, and printed, where the verdict is another than the one that is stored in the notebook. The claims'
page shows them, and the status page the cells: those that raise, with the error, and those that print another line.
"""

import argparse
import copy
import json
import os
import re
import sys
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path

import nbformat
from execute import chosen
from nbclient import NotebookClient
from tqdm import tqdm

from compile_lab.page.claims import printed
from compile_lab.page.explore import PUBLISH
from compile_lab.recordings import here

KEPT = Path(__file__).resolve().parents[1] / "verdicts.json"
COMMAND = "python book/tools/verdicts.py"


def tried(path: Path) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """One notebook, run from top to bottom: each ``verdict`` and why, or what it ``stopped`` at; what has `moved`."""
    notebook = nbformat.read(path, as_version=4)
    before = copy.deepcopy(notebook)
    stored = {number: word for cell in claims(notebook) for number, (word, _) in printed_by(cell).items()}
    folder = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", allow_errors=True, resources=folder)
    client.execute(env=os.environ | {PUBLISH: "1"})  # explorers and predictions show what a page stores
    errors = [each for cell in notebook.cells for each in cell.get("outputs", []) if each.output_type == "error"]
    said = {number: each for cell in claims(notebook) for number, each in printed_by(cell).items()}
    found = {}
    for number, own in stored.items():
        if number not in said:
            found[number] = {"stopped": f"{errors[0].ename}: {short(errors[0].evalue)}"}
        else:
            word, why = said[number]
            found[number] = {"verdict": word} | ({"evidence": why} if word != own else {})
    return found, moved(before, notebook)


def moved(stored: nbformat.NotebookNode, ran: nbformat.NotebookNode) -> dict[str, dict[str, str]]:
    """The cells that say something else than what is stored, by their number in the notebook ("36").

    What one ``raised``, or the first line that ``differs``, from shortly before the difference on: what is stored, an
    arrow, what came. What every run prints anew, versions and the widths of columns are no difference.
    """
    found = {}
    for before, after in zip(stored.cells, ran.cells, strict=True):
        if after.cell_type != "code" or {"nbval-ignore-output", "raises-exception"} & set(
            after.metadata.get("tags", [])
        ):
            continue
        errors = [each for each in after.outputs if each.output_type == "error"]
        lines = zip_longest(printed_lines(before), printed_lines(after), fillvalue="nothing")
        first = next((pair for pair in lines if pair[0] != pair[1]), None)
        if errors:
            found[str(before.execution_count)] = {"raised": f"{errors[0].ename}: {short(errors[0].evalue)}"}
        elif first:
            at = max(0, next(at for at, (one, other) in enumerate(zip_longest(*first)) if one != other) - 40)
            begun = "… " if at else ""
            both = (f"{begun}{each[at : at + 120].strip()}" for each in first)
            found[str(before.execution_count)] = {"differs": " → ".join(both)}
    return found


def printed_lines(cell: nbformat.NotebookNode) -> list[str]:
    """What a cell printed or shows as text, without addresses, versions, a table's widths, and what went to stderr."""
    outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    text = "".join(each.get("text") or each.get("data", {}).get("text/plain", "") + "\n" for each in outputs)
    text = re.sub(r"0x[0-9a-f]{6,}|(torch|triton) \d[\w.+]*", "…", text)
    return re.sub(r"([ ─])\1+", r"\1\1", text).splitlines()


def claims(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The cells that put a claim to the test."""
    return [
        cell
        for cell in notebook.cells
        if any(re.fullmatch(r"claim-C\d\d", tag) for tag in cell.metadata.get("tags", []))
    ]


def printed_by(cell: nbformat.NotebookNode) -> dict[str, tuple[str, str]]:
    """The verdicts that a cell printed, each with its evidence; none where it stopped."""
    return printed("".join(each.data["text/plain"] for each in cell.outputs if "data" in each))


def short(message: str) -> str:
    """An error's first line, and its last if that one only announces it, without folders of this machine."""
    first, *rest = message.strip().splitlines() or [""]
    line = f"{first} {rest[-1]}" if rest and first.endswith(":") else first
    return re.sub(r"(/[\w.+-]+)+/", "…/", line)[:300]


def kept() -> dict[str, dict]:
    """What each torch has said until now, by its version."""
    return json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="01_graph_breaks; none: all")
    provenance = asdict(here(COMMAND, device="cpu"))
    version = provenance["torch"].partition("+")[0]  # whoever built it
    names = parser.parse_args().names
    this = {"claims": {}, "cells": {}} | (kept().get(version, {}) if names else {})
    paths = chosen(names)
    try:
        for path in tqdm(paths, unit="chapter"):
            verdicts, cells = tried(path)
            this["claims"] |= verdicts
            this["cells"][path.stem] = cells
            every = kept() | {version: this | {"provenance": provenance}}  # another torch may have been at work
            KEPT.write_text(json.dumps(every, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted: the chapters that had ended are kept")
    for number, found in sorted(this["claims"].items()):
        if why := found.get("evidence") or found.get("stopped"):
            print(f"{number} {found.get('verdict', 'not checked')}: {why}")


if __name__ == "__main__":
    main()
