"""What does a call cost the host? When it returns, what its thread worked, and in which functions Python's time goes.

A call that a GPU works for returns before the GPU is done. If the host needs longer to issue a call than the GPU needs
to compute it, the host decides how long a row of calls takes; then these figures say where that time goes.
"""

import cProfile
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from .timing import samples_us, summary_us, wait

SAMPLES = 15
SAMPLE_US = 20_000
PROFILED_CALLS = 20
BUSIEST = 6


@dataclass(frozen=True)
class HostCost:
    """One call, as its host sees it.

    ``issued_us``: from an idle device until the call returns, the median, and its quartiles. ``thread_us``: processor
    time of the calling thread in a call of a row; where the row takes much longer than that and than the GPU's work,
    the thread was not running. ``busiest``: the functions in which Python spends most time, each with its share of all
    (under Python's profiler, which makes Python itself look longer).
    """

    issued_us: float
    issued_low_us: float
    issued_high_us: float
    thread_us: float
    busiest: tuple[tuple[str, float], ...] = ()


def host_cost(call: Callable[[], Any], device: str, samples: int = SAMPLES) -> HostCost:
    """What one ``call`` costs the host, once it has been compiled and warmed up."""
    issued = summary_us(samples_us(call, device, samples, from_idle=True))
    thread_us = _thread_us(call, device, samples, issued["median_us"])
    return HostCost(issued["median_us"], issued["low_us"], issued["high_us"], round(thread_us, 3), busiest(call))


def _thread_us(call: Callable[[], Any], device: str, samples: int, a_call_us: float) -> float:
    repeats = max(1, min(PROFILED_CALLS, int(SAMPLE_US / max(a_call_us, 1))))
    taken = []
    for _ in range(samples):
        wait(device)
        begin = time.thread_time()
        for _ in range(repeats):
            call()
        taken.append((time.thread_time() - begin) / repeats * 1e6)
    wait(device)
    return statistics.median(taken)


def busiest(call: Callable[[], Any], calls: int = PROFILED_CALLS, most: int = BUSIEST) -> tuple[tuple[str, float], ...]:
    """The functions in which Python spends most of its own time in a call, and each one's share of all: 0 to 1."""
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(calls):
        call()
    profile.disable()
    profile.create_stats()
    own_s = {place: row[2] for place, row in profile.stats.items()}
    whole_s = sum(own_s.values()) or 1.0
    largest = sorted(own_s, key=lambda place: own_s[place], reverse=True)[:most]
    return tuple((_named(*place), round(own_s[place] / whole_s, 4)) for place in largest)


def _named(file: str, line: int, function: str) -> str:
    """A function without this machine's folders; what Inductor wrote has a hash for a name."""
    said = function.strip("<>") if file == "~" else f"{PurePath(file).stem}.{function}"
    return re.sub(r"\bc[a-z0-9]{40,}\b", "generated code", said)
