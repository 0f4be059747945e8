"""python -m compile_lab.judge FILE:FUNCTION [--chip H200] [--again NAME] [--change NAME] [--stage]

FUNCTION returns ``(model, batch)``, as for ``compile_lab.report``: a module, or a function, also one that is a whole
step. It is called twice: the second time with the batch that ``--again``, another such function of FILE, returns, and
after ``--change``, a function of FILE that is called with the model; a generator undoes, after its ``yield``, what it
changed outside the model, as the code of a class. Right is what eager mode computes, but for rounding: a backward of
your own that is wrong there, too, is found by `torch.autograd.gradcheck`. With ``--stage`` what is wrong is compiled by
each of torch's backends in turn, and bisected: which stage of the compiler is it? The status is 0 if all that was
judged is right, 1 if something is wrong, or raises where eager mode does not, and 2 if nothing could be judged.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from ..report.given import function_of, raised, returned
from ..report.target import UnusableModel, named
from ..virtual_gpu.chips import CHIPS
from .judging import BACKENDS, gradients
from .stages import stage_at_fault


def main(arguments: list[str] | None = None) -> int:
    """Judge one model; the status."""
    parser = argparse.ArgumentParser(prog="python -m compile_lab.judge", description=__doc__.partition("\n\n")[2])
    parser.add_argument("target", metavar="FILE:FUNCTION")
    parser.add_argument("--chip", choices=list(CHIPS), help="judge the code for this GPU, too: none is needed")
    parser.add_argument("--again", metavar="NAME", help="a function of FILE that returns (model, batch), too")
    parser.add_argument("--change", metavar="NAME", help="a function of FILE that changes the model between the calls")
    parser.add_argument("--stage", action="store_true", help="where something is wrong: at which stage of the compiler")
    asked = parser.parse_args(arguments)
    beside = asked.target.rpartition(":")[0]
    try:
        model, batch, _, name = returned(asked.target)
        change = _beside(asked.target, asked.change) if asked.change else None
        again = returned(f"{beside}:{asked.again}")[1] if asked.again else None
    except UnusableModel as error:
        print(f"{error}", file=sys.stderr)
        return 2
    try:
        found = gradients(model, batch, chip=asked.chip, change=change, again=again)
    except Exception as error:  # before anything was judged: what is wrong comes in the verdicts
        print(f"{name} cannot be judged: {raised(error)}; it must run in eager mode first", file=sys.stderr)
        return 2
    print(found)
    if asked.stage and any(each.wrong for each in found.verdicts if each.backend in BACKENDS):
        print(stage_at_fault(model, batch, change=change, again=again))
    if found.wrong or any(each.raised for each in found.verdicts):
        return 1
    return 0 if any(each.units for each in found.verdicts) else 2


def _beside(target: str, name: str) -> Callable[..., Any]:
    """The function ``name`` of the file as it was run for ``target``: run once more, its classes would be others than
    the model's."""
    file = named(target)[0]
    run = [each for each in [*sys.modules.values()] if getattr(each, "__file__", None) == str(file.resolve())]
    function = getattr(run[-1], name, None) if run else None
    return function if callable(function) else function_of(f"{file}:{name}")  # which says what is missing


if __name__ == "__main__":
    sys.exit(main())
