"""python -m compile_lab.judge FILE:FUNCTION [--chip H200]

FUNCTION returns ``(model, batch)``, as for ``compile_lab.report``. The status is 0 if all that was judged is right, 1
if something is wrong, and 2 if the model cannot be used or nothing could be judged.
"""

import argparse
import sys

from ..report.given import loaded
from ..report.target import UnusableModel
from ..virtual_gpu.chips import CHIPS
from .judging import gradients


def main(arguments: list[str] | None = None) -> int:
    """Judge one model; the status."""
    parser = argparse.ArgumentParser(prog="python -m compile_lab.judge", description=__doc__.partition("\n\n")[2])
    parser.add_argument("target", metavar="FILE:FUNCTION")
    parser.add_argument("--chip", choices=list(CHIPS), help="judge the code for this GPU, too: none is needed")
    asked = parser.parse_args(arguments)
    try:
        given = loaded(asked.target)
    except UnusableModel as error:
        print(f"{error}", file=sys.stderr)
        return 2
    found = gradients(given.model, dict(given.kwargs) or given.args, chip=asked.chip)
    print(found)
    if found.wrong or any(each.raised for each in found.verdicts):
        return 1
    return 0 if any(each.units for each in found.verdicts) else 2


if __name__ == "__main__":
    sys.exit(main())
