"""python -m compile_lab.report FILE:FUNCTION      a page about the training step of your own model

FUNCTION returns (model, batch) or (model, batch, optimizer). The status is 0 when the report is written, 2 when what
was handed over cannot be used.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from ..virtual_gpu.chips import CHIPS
from .captured import LIMIT_S, asked_parts
from .compare import earlier, moved
from .given import UnusableModel, loaded
from .model import checked, told
from .model_view import page
from .tries import PATTERNS


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the report; the exit status."""
    asked = _parser().parse_args(arguments)
    suffix = ".json" if asked.json else ".html"
    path = Path(
        asked.output or f"report-{asked.target.rpartition(':')[0].rpartition('/')[2].removesuffix('.py')}{suffix}"
    )
    try:
        options = checked(asked.chip, asked.devices, asked.pattern, asked.limit_s)
        if not path.absolute().parent.is_dir():
            raise UnusableModel(f"-o {path.name}: its folder does not exist; make it first")
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK) or path.is_dir():
            raise UnusableModel(f"-o {path.name} cannot be written; choose another file with -o")
        before = earlier(Path(asked.compare)) if asked.compare else None
        subject = loaded(asked.target, asked.fake)
    except ValueError as error:
        print(f"compile_lab.report: {error}", file=sys.stderr)
        return 2
    with tqdm(total=len(asked_parts(options)), bar_format="{desc:.<46} {n_fmt}/{total_fmt} {elapsed}") as bar:

        def progress(part: str) -> None:
            bar.set_description_str(part, refresh=False)
            bar.update()

        found = told(subject, options, progress)
        bar.set_description_str("done")
    if before:
        found = replace(found, cards=(moved(before, found), *found.cards))
    text = json.dumps(found.as_data(), indent=1, ensure_ascii=False) + "\n" if asked.json else page(found)
    path.write_text(text, encoding="utf-8")
    print(f"{found}\n\n{path.name}, {len(text.encode()) / 1e3:,.0f} kB")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m compile_lab.report",
        description="One page about the training step of your own model; no GPU needed.",
    )
    parser.add_argument("target", metavar="FILE:FUNCTION", help="a function that returns (model, batch)")
    parser.add_argument("-o", dest="output", metavar="OUT", help="the file to write; report-FILE.html without it")
    parser.add_argument("--json", action="store_true", help="write the same as data")
    parser.add_argument("--fake", action="store_true", help="build the model without memory: one of any size is read")
    parser.add_argument("--compare", metavar="JSON", help="an earlier report, as --json wrote it: what moved since")
    parser.add_argument("--chip", default="H200", choices=tuple(CHIPS), help="whose kernels (H200)")
    parser.add_argument("--devices", type=int, help="also: what one of so many devices holds and sends")
    parser.add_argument("--pattern", default="fsdp", choices=PATTERNS, help="how they share the work (fsdp)")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S, help=f"seconds that each part may take ({LIMIT_S})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
