"""A measurement that a room offers: its row in the registry."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

OUT_OF_TIME = "not begun: the recording's time was used up"
"""Why there is nothing of a part: what a recording says of what its budget did not allow."""


@dataclass(frozen=True)
class Experiment:
    """What a measurement answers, and about how many seconds it takes on a large GPU.

    ``on_cpu``: it is of the CPU, on any machine; the seconds are those of two idle cores.
    ``in_bf16``: on a GPU it compiles bf16, which torch leaves to eager mode below compute capability 8.0.
    ``module``: the one whose `record` measures it, where it is not called as the recording; ``options`` of that.
    """

    answers: str
    takes_s: float
    on_cpu: bool = False
    in_bf16: bool = False
    module: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


def reason(error: Exception) -> str:
    """Why something failed, in a line: the error's type, and the first line of what it says.

    Inductor says of C++ that does not compile only that it does not; then also the compiler's first error.
    """
    first, *others = str(error).strip().splitlines() or ["no message"]
    told = next((found[1] for each in others if (found := re.search(r"\berror: (.+)", each))), "")
    said = f"{first}: {told}" if told and first.endswith("C++ compile error") else first
    return f"{type(error).__name__}: {said[:300]}"


class Attempts:
    """The parts of a recording: one that fails, or would begin too late, is told in ``stopped``, and the rest stands.

    ``stopped`` has an object for each: what the part was called by, and under ``key`` why there is nothing of it.
    """

    def __init__(self, budget_s: float, key: str = "stopped") -> None:
        self.until, self.key = time.monotonic() + budget_s, key
        self.stopped: list[dict[str, Any]] = []

    @property
    def late(self) -> bool:
        """The time is used up."""
        return time.monotonic() > self.until

    def in_time(self, work: Callable[[], Any], **part: Any) -> Any:
        """What the work gives, or None where it fails, or is not begun because it is late."""
        return self.stop(OUT_OF_TIME, **part) if self.late else self.tried(work, **part)

    def tried(self, work: Callable[[], Any], **part: Any) -> Any:
        """The same, whatever the time is."""
        try:
            return work()
        except Exception as error:  # the rest of the recording stands
            return self.stop(reason(error), **part)

    def stop(self, why: str, **part: Any) -> None:
        """There is nothing of this part."""
        self.stopped.append({**part, self.key: why})

    def by(self, name: str) -> dict[str, str]:
        """The reasons, by what each part was called by."""
        return {each[name]: each[self.key] for each in self.stopped}
