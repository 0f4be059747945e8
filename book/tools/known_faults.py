"""Run every known fault on the torch of this environment: the page of known faults shows what each torch makes of it.

    python book/tools/known_faults.py [NUMBER …]       all, or those named
    python book/tools/known_faults.py --bisect         and what torch's own bisector names in those that are wrong
    python book/tools/known_faults.py --minify         and what its minifier makes of them, half a minute each
    python book/tools/known_faults.py --device cuda    on this machine's GPU, a column of its own

``chapters/is_it_right/faults/board.json`` holds each torch by its version. Programs and their sources are in the same
folder; nothing on the page is written by hand but these.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from chapters.is_it_right.faults import FAULTS, WRONG, fate, outcomes
from chapters.is_it_right.faults.catalogue import as_it_is, outcome
from chapters.is_it_right.faults.kept import KEPT
from compile_lab.judge import climbed
from compile_lab.recordings import here

COMMAND = "python book/tools/known_faults.py"


def bisected(number: int) -> str:
    """What torch's bisector names in a fault's program; empty if it names nothing."""
    program = FAULTS[number].program
    found = climbed(partial(outcome, program, expected=program(as_it_is)))
    said = [found.subsystem, found.applied if found.applied != found.subsystem else ""]
    return ": ".join(each for each in said if each)


MINIFIED_S = 120
PROGRAM = (
    "import sys, torch; from chapters.is_it_right.faults import FAULTS; FAULTS[int(sys.argv[1])].program(torch.compile)"
)


def minified(number: int) -> str:
    """What torch's minifier makes of a fault's program, asked to compare each graph after AOTAutograd with eager."""
    asked = {"TORCHDYNAMO_REPRO_AFTER": "aot", "TORCHDYNAMO_REPRO_LEVEL": "4"}
    with tempfile.TemporaryDirectory() as folder:
        caches = {"TORCH_COMPILE_DEBUG_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache"}
        environment = os.environ | caches | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        _done(["-c", PROGRAM, str(number)], folder, environment | asked)
        launchers = list(Path(folder).rglob("minifier_launcher.py"))
        if not launchers:
            return "notices nothing"
        if not _done([launchers[0].name], launchers[0].parent, environment):
            return f"notices it, and is not done after {MINIFIED_S} s"
        left = [each.read_text("utf-8") for each in launchers[0].parent.glob("repro.py")]
    if not left:
        return "notices it, and then cannot reproduce it"
    operations = re.findall(r"^        \w+ = torch[.]ops", left[0], re.MULTILINE)
    return f"leaves {len(operations)} operation{'s' * (len(operations) != 1)}"


def _done(arguments: list[str], folder: str | Path, environment: dict[str, str]) -> bool:
    """Whether Python was done with that in time; if not, it is ended with all that it started."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=environment, start_new_session=True, **quiet
    ) as process:
        try:
            process.wait(MINIFIED_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return False
    return True


def kept() -> dict[str, Any]:
    """What is kept of each torch, by its version."""
    return json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="as on the page; none: all")
    parser.add_argument("--bisect", action="store_true", help="ask torch's bisector about those that are wrong")
    parser.add_argument("--minify", action="store_true", help="ask torch's minifier about those that are wrong")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where the programs run")
    asked = parser.parse_args()
    if unknown := [number for number in asked.numbers if number not in FAULTS]:
        parser.error(f"no fault {unknown[0]}; there is {', '.join(map(str, FAULTS))}")
    command = COMMAND if asked.device == "cpu" else f"{COMMAND} --device {asked.device}"
    provenance = asdict(here(command, device=asked.device))
    version = provenance["torch"].partition("+")[0]  # whoever built it
    if asked.device == "cuda":
        version = f"{version}, {provenance['device']}"
        torch.set_default_device("cuda")
    this = {"faults": {}, "bisector": {}, "minifier": {}} | kept().get(version, {}) | {"provenance": provenance}
    for number in tqdm(asked.numbers or FAULTS, unit="program"):
        try:
            row = outcomes(FAULTS[number])
        except NotImplementedError as error:  # a GPU has not every operator of a CPU's
            tqdm.write(f"{number} is not run, since eager mode does not: {error}")
            continue
        this["faults"][str(number)] = row
        wrong_here = any(each == WRONG for backend, each in row.items() if "virtual" not in backend)
        for kind, wanted, ask in (("bisector", asked.bisect, bisected), ("minifier", asked.minify, minified)):
            if wrong_here and wanted:
                this[kind][str(number)] = ask(number)
            elif not wrong_here:
                this[kind].pop(str(number), None)
        every = kept() | {version: this}  # read again: another torch may have written its column meanwhile
        KEPT.write_text(json.dumps(every, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
        tqdm.write(f"{number} {fate(row)}: {FAULTS[number].title}")


if __name__ == "__main__":
    main()
