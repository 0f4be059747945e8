"""Run every known fault on the torch of this environment: the page of known faults shows what each torch makes of it.

    python book/tools/known_faults.py [NUMBER …]       all, or those named
    python book/tools/known_faults.py --bisect         and what torch's own bisector names in those that are wrong

``chapters/is_it_right/faults/board.json`` holds each torch by its version. Programs and their sources are in the same
folder; nothing on the page is written by hand but these.
"""

import argparse
import json
from dataclasses import asdict
from functools import partial

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="as at pytorch/pytorch; none: all")
    parser.add_argument("--bisect", action="store_true", help="ask torch's bisector about those that are wrong")
    asked = parser.parse_args()
    if unknown := [number for number in asked.numbers if number not in FAULTS]:
        parser.error(f"no fault {unknown[0]}; there is {', '.join(map(str, FAULTS))}")
    provenance = asdict(here(COMMAND, device="cpu"))
    version = provenance["torch"].partition("+")[0]  # whoever built it
    every = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    this = every.get(version, {"faults": {}, "bisector": {}})
    for number in tqdm(asked.numbers or FAULTS, unit="program"):
        row = outcomes(FAULTS[number])
        this["faults"][str(number)] = row
        this["bisector"].pop(str(number), None)
        if asked.bisect and any(each == WRONG for backend, each in row.items() if "virtual" not in backend):
            this["bisector"][str(number)] = bisected(number)
        every[version] = {"provenance": provenance} | this
        KEPT.write_text(json.dumps(every, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
        tqdm.write(f"{number} {fate(row)}: {FAULTS[number].title}")


if __name__ == "__main__":
    main()
