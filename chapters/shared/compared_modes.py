"""The comparisons of modes that the chapters show: those recordings that may be compared, GPT-2's vocabulary padded.

- GPT-2 with one sequence is of the recording ``modes`` whose modes were timed side by side, with the workers awake.
- GPT-2's training step and a full batch are of ``regional``: eager and ``default``, timed in turn.
- MiniGPT is of the first recording of ``modes``. There ``default`` was compiled first, while the compiler's workers
  were still starting, so its cold time is left out; and max-autotune is the one whose search nothing limited.
"""

from dataclasses import replace

from compile_lab.modes.cost import Comparison, CompileTime, ModeCost, compared
from compile_lab.modes.regional import Regional, recorded
from compile_lab.recordings import folder, load

FIRST, PADDED = "NVIDIA H200", "NVIDIA H100 80GB HBM3"
"""Where ``modes`` was recorded: first, and again with one protocol and a padded vocabulary."""
OTHER_HOST = "another-host"
"""The folder, under the recordings, of what was measured again where only the host differs."""
SINGLE = "GPT-2 inference, batch 1"


def comparisons() -> dict[str, Comparison]:
    """By name, the smallest first. What a mode's recording does not have is None."""
    single = compared(load("modes", PADDED))[SINGLE]
    by_region = {one.name: one for one in recorded(load("regional"))}
    found = [
        _mini(compared(load("modes", FIRST))),
        single,
        _of_region("GPT-2 inference, batch 8", by_region["GPT-2 124M, inference"]),
        _of_region("GPT-2 training", by_region["GPT-2 124M, training"]),
    ]
    return {one.name: one for one in found}


def _mini(found: dict[str, Comparison]) -> Comparison:
    limited, whole = found["MiniGPT inference"], found["MiniGPT inference, whole search"]
    costs = {mode: limited.costs[mode] for mode in ("eager", "default", "reduce-overhead")}
    costs["default"] = replace(costs["default"], cold=None)
    costs["max-autotune"] = whole.costs["max-autotune"]
    return replace(limited, costs=costs, search={})


def _of_region(name: str, one: Regional) -> Comparison:
    eager, whole = one.ways["eager"], one.ways["whole"]
    assert whole.compile_s is not None and whole.payback is not None  # each was measured
    compiled = CompileTime(whole.compile_s, {}, whole.payback.compile_runs_s)
    costs = {
        "eager": ModeCost("eager", eager.step, peak_nbytes=eager.peak_nbytes),
        "default": ModeCost("default", whole.step, cold=compiled, peak_nbytes=whole.peak_nbytes),
    }
    return Comparison(name, f"GPT-2 124M, vocabulary 50,304, {one.what}", costs, one.provenance)


def one_program() -> list[Comparison]:
    """GPT-2 with one sequence as it was recorded three times: first, beside another host, and with one protocol.

    The first two have GPT-2's own 50,257 words.
    """
    recorded_so = load("modes", FIRST), load("modes", FIRST, folder() / OTHER_HOST), load("modes", PADDED)
    return [compared(recording)[SINGLE] for recording in recorded_so]
