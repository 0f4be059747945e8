"""compile-lab report FILE:FUNCTION     a page about the training step of your own model
compile-lab judge FILE:FUNCTION      whether what it computes compiled is right, gradients and all; status 1 if not
compile-lab record NAME              measure it on this machine's GPU and keep it; without a name: what there is
compile-lab bisect FILE:FUNCTION     the first operation whose compiled result differs

Also ``python -m chapters``. Each command has its own ``--help``; the status is the command's.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {
    "report": "compile_lab.report.__main__",
    "judge": "compile_lab.judge.__main__",
    "record": "chapters.record",
    "bisect": "compile_lab.precision.bisect",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands; 2 for another word."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if name in COMMANDS:
        return import_module(COMMANDS[name]).main(rest)
    asked_for_help = name in ("-h", "--help")
    print(__doc__.strip(), file=sys.stdout if asked_for_help else sys.stderr)
    return 0 if asked_for_help else 2


if __name__ == "__main__":
    sys.exit(main())
