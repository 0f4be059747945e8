"""Measure by name: live where there is a GPU, from the recordings where there is none.

python -m chapters.record                 what can be measured, and how long it takes
python -m chapters.record machine         measure it on this machine's GPU and keep it
"""

import argparse
import functools
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from compile_lab import recordings
from compile_lab.doors import door, is_source
from compile_lab.page.tables import Table
from compile_lab.recordings import Recording, RecordingError

from .registry import EXPERIMENTS, measure, progress, require

WITH_A_PEER = (
    "capstone", "capstone_peers", "capstone_options", "capstone_hand", "capstone_sizes", "capstone_peer_losses"
)  # fmt: skip


@door
def result(name: str) -> Recording:
    """The result `name`: measured here and now if there is a GPU (once a process), else as it was recorded.

    What is of the CPU alone is shown as it was recorded, and what compiles bf16 is on a GPU for which torch does not.
    Its `provenance.kind` is "live" or "recorded", and a recording is never called live.
    Raises KeyError for a name that nothing measures, RecordingError where there is neither GPU nor recording.
    """
    require(name)
    live = _has_gpu() and not EXPERIMENTS[name].on_cpu and not _eager_instead(name)
    return _measured_once(name) if live else recordings.load(name)


@functools.cache
def _measured_once(name: str) -> Recording:
    return _measured(name)


def _measured(name: str, **options: Any) -> Recording:
    device: Literal["cuda", "cpu"] = "cuda" if _has_gpu() and not EXPERIMENTS[name].on_cpu else "cpu"
    measured = measure(name, device, progress(name), **options)
    return Recording(name, recordings.here(f"python -m chapters.record {name}", device=device), measured)


def _eager_instead(name: str) -> bool:
    """What it would measure as compiled is eager code: torch compiles no bf16 for this GPU, and warns."""
    import torch

    return EXPERIMENTS[name].in_bf16 and not torch.cuda.is_bf16_supported(including_emulation=False)


def _has_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def listing(root: Path | None = None) -> Table:
    """What can be measured, how long it takes, and where it is recorded already."""
    places = recordings.names(root)
    rows = [
        [name, one.answers, f"{one.takes_s:g} s", ", ".join(place for place in places if name in places[place]) or None]
        for name, one in EXPERIMENTS.items()
    ]
    return Table(["name", "measures", "takes about", "recorded on"], rows)


def record(names: Sequence[str], root: Path, **options: Any) -> None:
    """Measure each name and write it, one after the other: what is written is whole, whatever happens after it.

    The options are those of the measurements.
    Raises RecordingError, before anything is measured, for what compiles bf16 where torch does not; RecordingError or
    OSError where `root` cannot be written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordingError(f"{root} is no folder to write in ({error.strerror}); name one with --out") from None
    if _has_gpu() and (eager := [name for name in names if _eager_instead(name)]):
        why = "torch compiles no bf16 for this GPU, so what they compare with eager mode would be eager mode"
        raise RecordingError(f"{', '.join(eager)}: {why}; take a GPU of compute capability 8.0 or newer")
    for name in names:
        measured = _measured(name, **options)
        path = recordings.save(name, measured.provenance, measured.result, root)
        _say(f"{path.parent.name}/{path.name}: {replace(measured.provenance, kind='recorded')}")


def _say(what: object) -> None:
    """Print it. Where nobody reads any more (``… | head``), what is measured still counts: go on without a word."""
    try:
        print(what, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more as it ends


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m chapters.record", description=__doc__.split("\n")[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help="what to measure; without a name: what there is")
    parser.add_argument("--out", metavar="DIR", type=Path, help="where to write (default: book/recordings)")
    parser.add_argument("--allow-cpu", action="store_true", help="try it without a GPU; needs --out")
    parser.add_argument(
        "--peer",
        metavar="FILE",
        type=Path,
        help=f"another GPT's model.py, measured in the same run as ours: {', '.join(WITH_A_PEER)}",
    )
    options = parser.parse_args(arguments)
    root = options.out or recordings.folder()
    if not options.names:
        if options.out and not os.path.isdir(options.out):  # noqa: PTH112  # a name too long is none, too
            parser.error(f"--out {options.out}: there is no such folder; name the one whose recordings are meant")
        _say(listing(root))
        return 0
    try:
        require(*options.names)
    except KeyError as error:
        parser.error(error.args[0])
    if options.peer and not set(options.names) <= set(WITH_A_PEER):
        parser.error(f"--peer is of {', '.join(WITH_A_PEER)} alone: python -m chapters.record capstone --peer FILE")
    if options.peer and not is_source(options.peer):
        parser.error(f"--peer {options.peer}: no such file, or no source; give one that defines GPT and GPTConfig")
    if options.allow_cpu and not options.out:
        parser.error("--allow-cpu needs --out DIR: the book's own recordings are of GPUs")
    if not _has_gpu() and not options.allow_cpu and not all(EXPERIMENTS[name].on_cpu for name in options.names):
        print(
            "A recording is of a real GPU, and torch finds none here: run this on a machine with one. Nothing was "
            "written. (--allow-cpu --out DIR tries the measurement on this CPU.)",
            file=sys.stderr,
        )
        return 1
    try:
        record(options.names, root, **({"peer": options.peer} if options.peer else {}))
    except KeyboardInterrupt:
        print("interrupted: what was not finished was not written", file=sys.stderr)
        return 130
    except (RecordingError, OSError) as error:
        print(f"not recorded: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
