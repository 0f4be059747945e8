"""What does a restart find? A start is a process of its own; what it compiled, loaded and missed, layer by layer.

torch keeps two caches on disk, one above the other. AOTAutograd's is asked for what Dynamo traced, and names the graphs
of forward and backward; Inductor's holds the code of each. A hit above saves the joint trace; the code is from below.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from compile_lab._torch import caches
from compile_lab.devices import ranks
from compile_lab.doors import door
from compile_lab.recordings import RecordedRow, Recording

LAYERS = {"AOTAutograd's cache": "autograd_cache", "Inductor's cache": "fxgraph_cache"}
"""What torch calls them in its counters, ``torch._dynamo.utils.counters``."""
ANSWERS = ("hit", "miss", "bypass")


@dataclass(frozen=True)
class Restart(RecordedRow):
    """One start. ``seconds`` is the first step less a later one, on the clock; ``cpu_s`` all work of this process and
    the compilers that it started. ``found`` has for each of `LAYERS` how often it said each of `ANSWERS`.

    ``built``: files of machine code that compilers wrote in this start. ``losses`` of its steps, from ``first_step``
    on. ``key_parts``: what AOTAutograd's key was made of, a hash by name.
    ``artifacts_nbytes`` is what ``save_cache_artifacts`` gave, or what was loaded. What was not measured is None;
    ``stopped`` says why.
    """

    name: str
    seconds: float | None = None
    cpu_s: float | None = None
    step_ms: float | None = None
    found: Mapping[str, Mapping[str, int]] | None = None
    artifacts_nbytes: int | None = None
    built: int | None = None
    first_step: int = 1
    losses: Sequence[float] = ()
    key_parts: Mapping[str, str] = field(default_factory=dict)
    stopped: str = ""

    def answer(self, layer: str) -> str:
        """What a layer answered, in a word: "hit", "miss", "bypass", "both" for hits and misses, or "not queried"."""
        if self.found is None:
            return "not measured"
        answers = [answer for answer in ANSWERS if self.found[layer].get(answer)]
        return answers[0] if len(answers) == 1 else "both" if answers else "not queried"


@dataclass(frozen=True)
class Restarts:
    """All starts of one program, and what it is; ``clock`` says whether seconds are wall or CPU seconds."""

    what: str
    starts: Mapping[str, Restart]
    provenance: object

    def share(self, name: str, cpu: bool = False) -> float | None:
        """What part of a cold start's seconds this one took; None where either was not measured."""
        cold, other = self.starts["cold"], self.starts[name]
        one, whole = (other.cpu_s, cold.cpu_s) if cpu else (other.seconds, cold.seconds)
        return one / whole if one is not None and whole else None

    def differing(self, name: str) -> dict[str, int]:
        """The parts of its key that are not those of the cold start, by kind, and how many of each: a changed graph
        has other ``gm``, another option other ``inductor_config[…]``."""
        cold, other = self.starts["cold"].key_parts, self.starts[name].key_parts
        if not other:
            return {}  # its key was not made: that cache was off
        changed = [part for part in sorted({*cold, *other}) if cold.get(part) != other.get(part)]
        return dict(Counter(part.partition("[")[0] for part in changed))


@door
def restarts(recording: Recording) -> Restarts:
    """The starts of a recording, in its order.

    >>> from chapters.return_on_investment.restarts import restarts
    >>> from compile_lab import recordings
    >>> starts = restarts(recordings.load("restarts_cpu")).starts
    >>> [(name, starts[name].answer("Inductor's cache")) for name in ("cold", "the same folder", "another constant")]
    [('cold', 'miss'), ('the same folder', 'hit'), ('another constant', 'miss')]
    """
    starts = {one["name"]: Restart.from_json(one) for one in recording.result["starts"]}
    return Restarts(recording.result["what"], starts, recording.provenance)


@door
def answers(counters: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Hits, misses and bypasses of each layer, from torch's counters (a group of counts for each part of torch).

    >>> from chapters.return_on_investment.restarts import answers
    >>> answers({"inductor": {"fxgraph_cache_hit": 2}, "aot_autograd": {"autograd_cache_miss": 1}})
    {"AOTAutograd's cache": {'hit': 0, 'miss': 1, 'bypass': 0}, "Inductor's cache": {'hit': 2, 'miss': 0,
    'bypass': 0}}
    """
    counts = {name: count for group in counters.values() for name, count in group.items()}
    return {
        layer: {answer: int(counts.get(f"{prefix}_{answer}", 0)) for answer in ANSWERS}
        for layer, prefix in LAYERS.items()
    }


@door
def inputs_hash(device: str) -> str:
    """What Inductor's cache makes of a graph's input that lies on this device, such as "cuda:1": its hash.

    Nothing is there: the tensor is fake, so the device may be one that this machine does not have. Where there is a
    GPU, torch asks for the device even so; the question is then put to a process that sees none.

    >>> from chapters.return_on_investment.restarts import inputs_hash
    >>> inputs_hash("cuda:0") == inputs_hash("cuda:0"), inputs_hash("cuda:0") == inputs_hash("cuda:1")
    (True, False)
    """
    if torch.cuda.is_available():
        return str(ranks.run(caches.inputs_hash, 1, device, env={"CUDA_VISIBLE_DEVICES": ""})[0])
    return caches.inputs_hash(device)
