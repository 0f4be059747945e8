"""torch's own operators under every placement, on real ranks of this CPU: right, paid for, refused, or wrong.

python -m chapters.record dtensor        all of them, about a quarter of an hour on two cores
python -m chapters.sharding_strategies.experiments.dtensor "sum,sort"
                                         those that match, shown and not kept; --out DIR keeps them

What is finished is kept in a file as it goes, so that a run that was interrupted goes on where it was.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compile_lab import recordings

from ...registry import Progress, progress
from ..audit import SAMPLES, audit
from ..audit_table import from_json, to_json

KEPT = "compile_lab-dtensor-audit.jsonl"


def record(
    device: str, progress: Progress = iter, *, only: str = "*", samples: int = SAMPLES, limit_s: float = 10.0
) -> dict[str, Any]:
    """The audit of the operators that ``only`` matches, as `audit_table.to_json` writes it.

    It runs on two gloo ranks of the CPU, whatever the ``device``. A case that has not ended after ``limit_s`` seconds
    is asked again with three times as much, and then counts as hanging.
    Raises ValueError for a pattern that nothing matches.
    """
    kept = Path(tempfile.gettempdir()) / KEPT
    found = audit(only, samples=samples, limit_s=limit_s, kept=kept, progress=progress)
    kept.unlink(missing_ok=True)
    return to_json(found)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m chapters.sharding_strategies.experiments.dtensor", description=record.__doc__
    )
    parser.add_argument(
        "only", metavar="PATTERNS", nargs="?", default="*", help="names of operators, separated by commas"
    )
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of an operator's samples, at most so many")
    parser.add_argument("--out", metavar="DIR", type=Path, help="where to keep it, as a recording")
    options = parser.parse_args(arguments)
    result = record("cpu", progress("dtensor"), only=options.only, samples=options.samples)
    found = from_json(result)
    for (kind, shards), cases in sorted(found.counts().items()):
        print(f"{kind:8} {shards:7} {cases:6,}")
    for row in found.rows:
        if row.kind in ("wrong", "hangs"):
            print(f"{row.kind}: {row.operator} on {row.layout} ({row.shards}, {row.asked}): {row.what} {row.detail}")
    if options.out:
        command = (
            f"python -m chapters.sharding_strategies.experiments.dtensor {options.only!r} --samples {options.samples}"
        )
        print(recordings.save("dtensor", recordings.here(command, device="cpu"), result, options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
