"""The hang lab: programs whose ranks part ways, what torch says, what is named and how soon, and their cures, run."""

from typing import Any

from ...registry import Progress
from ..hangs import runs
from ..hangs.case_table import CASES


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Each case, run: ``{"patience_s": the groups' time-out, "cases": [HangResult as a dict]}``."""
    return runs.as_record([runs.judge(case) for case in progress(list(CASES.values()))])
