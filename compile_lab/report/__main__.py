"""python -m compile_lab.report FILE:FUNCTION      a page about the training step of your own model

FUNCTION returns (model, batch) or (model, batch, optimizer). The status is 0 when the report is written, 2 when what
was handed over cannot be used, 128 and the signal's number when a signal stopped it. Whatever FUNCTION and the model do
to the process that they run in, an earlier report stays until the new one is whole, and nothing is left running.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from .limits import LIMIT_S
from .supervisor import Answer, StoppedBySignal, SubjectFailed, plain, stops_noted, supervised
from .target import UnusableModel, named

WORKER = (sys.executable, "-m", "compile_lab.report.worker")
PATTERNS_HELP = "how they share the work: ddp, fsdp, ep (experts) or cp (sequences) (fsdp)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the report; the exit status."""
    asked = _parser().parse_args(arguments)
    try:
        named(asked.target)
        path = _output(asked)
        most = _memory(asked.limit_gb)
        with stops_noted() as stops:
            answer = _answer(asked, most, stops)
            _write(path, answer.report, stops)
    except (UnusableModel, SubjectFailed) as error:
        print(f"compile_lab.report: {plain(str(error))}", file=sys.stderr)
        return 2
    except StoppedBySignal as error:
        print(f"compile_lab.report: stopped by {error}, before a report was written", file=sys.stderr)
        return 128 + error.number
    print(f"{answer.summary}\n\n{path.name}, {len(answer.report.encode()) / 1e3:,.0f} kB")
    return 0


def _answer(arguments: argparse.Namespace, most: int | None, stops: Sequence[int]) -> Answer:
    """The report that a worker makes, while a bar says what it is at."""
    with tqdm(total=0, bar_format="{desc:.<46} {n_fmt}/{total_fmt} {elapsed}") as bar:

        def phase(name: str, of: int) -> None:
            bar.total = of
            bar.set_description_str(name, refresh=False)
            bar.update()

        answer = supervised(
            [*WORKER, json.dumps(vars(arguments))],
            memory_nbytes=most,
            stops=stops,
            phase=phase,
            printed=lambda text: bar.write(text, file=sys.stderr, end=""),
        )
        bar.set_description_str("done")
    return answer


def _memory(limit_gb: float | None) -> int | None:
    if limit_gb is None:
        return None
    if not 0 < limit_gb < 1e9:
        raise UnusableModel(f"--limit-gb is {limit_gb:g}; it must be a number of gigabytes above 0, or be left out")
    return int(limit_gb * 1e9)


def _output(arguments: argparse.Namespace) -> Path:
    """The file to write, whole: the reader's code may change the folder. UnusableModel if it cannot be written."""
    suffix = ".json" if arguments.json else ".html"
    file, _, function = arguments.target.rpartition(":")
    path = Path(arguments.output or f"report-{Path(file).stem}-{function}{suffix}")
    try:
        whole = path.resolve()
        there = whole.exists()
    except (OSError, RuntimeError) as error:  # before Python 3.13, a link that leads back to itself is the latter
        raise UnusableModel(f"-o {path.name} can be no file's name; choose another with -o") from error
    if not whole.parent.is_dir():
        raise UnusableModel(f"-o {path.name}: its folder does not exist; make it first")
    if there and not whole.is_file():
        raise UnusableModel(f"-o {path.name} is no regular file; choose another with -o")
    if not os.access(whole.parent, os.W_OK) or (there and not os.access(whole, os.W_OK)):
        raise UnusableModel(f"-o {path.name} cannot be written; choose another file with -o")
    return whole


def _write(path: Path, text: str, stops: Sequence[int]) -> None:
    """Beside it first, then in its place: who looks at the file finds the earlier report or the new one, whole."""
    beside = path.with_name(f".report-{os.getpid()}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        if path.exists():
            shutil.copymode(path, beside)
        if stops:
            raise StoppedBySignal(stops[0])
        beside.replace(path)
    except OSError as error:
        raise SubjectFailed(
            f"-o {path.name} could not be written ({error.strerror}); see whether its folder is still there and has "
            "room, and choose another file with -o"
        ) from error
    finally:
        beside.unlink(missing_ok=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m compile_lab.report",
        description="One page about the training step of your own model; no GPU needed.",
    )
    parser.add_argument("target", metavar="FILE:FUNCTION", help="a function that returns (model, batch)")
    parser.add_argument(
        "-o", dest="output", metavar="OUT", help="the file to write; report-FILE-FUNCTION.html without it"
    )
    parser.add_argument("--json", action="store_true", help="write the same as data")
    parser.add_argument("--fake", action="store_true", help="build the model without memory: one of any size is read")
    parser.add_argument("--compare", metavar="JSON", help="an earlier report, as --json wrote it: what moved since")
    parser.add_argument("--chip", default="H200", help="whose kernels: H200, H100, A100 or T4 (H200)")
    parser.add_argument("--devices", type=int, help="also: what one of so many devices holds and sends")
    parser.add_argument("--pattern", default="fsdp", help=PATTERNS_HELP)
    parser.add_argument("--judge", action="store_true", help="judge the compiled step also where that takes long")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S, help=f"seconds that each part may take ({LIMIT_S})")
    parser.add_argument("--limit-gb", type=float, help="memory that all of it may hold (four fifths of what is free)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
