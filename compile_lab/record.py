"""Measure by name: live where there is a GPU, from the recordings where there is none.

python -m compile_lab.record                 what can be measured, and how long it takes
python -m compile_lab.record machine         measure it on this machine's GPU and keep it
"""

import argparse
import functools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm  # in a notebook, a bar that leaves nothing behind

from . import recordings
from .page.explore import PUBLISH
from .page.tables import Table
from .recordings import Recording, RecordingError


@dataclass(frozen=True)
class Measurement:
    """A function that measures, what it answers, and about how many seconds it takes on a large GPU.

    `measure` takes `progress` (which wraps a list of steps, as tqdm does) and returns plain JSON values.
    """

    measure: Callable[..., dict[str, Any]]
    answers: str
    takes_s: float


def _machine(progress: Any) -> dict[str, Any]:
    from .experiments.machine import machine_rates

    return machine_rates(progress=progress)


def _graph_breaks(progress: Any) -> dict[str, Any]:
    from .experiments.graph_breaks import break_cost

    return break_cost("cuda" if _has_gpu() else "cpu", progress)


def _peaks(progress: Any) -> dict[str, Any]:
    from .experiments.peaks import peaks

    return peaks("cuda" if _has_gpu() else "cpu", progress)


def _collectives(progress: Any) -> dict[str, Any]:
    from .experiments.collectives import collective_rates

    return collective_rates("cuda" if _has_gpu() else "cpu", progress)


def _patterns(progress: Any) -> dict[str, Any]:
    from .experiments.patterns import pattern_costs

    return pattern_costs("cuda" if _has_gpu() else "cpu", progress)


def _patterns_compiled(progress: Any) -> dict[str, Any]:
    from .experiments.patterns import pattern_costs

    return pattern_costs("cuda" if _has_gpu() else "cpu", progress, mode="default")


def _softmax(progress: Any) -> dict[str, Any]:
    from .experiments.softmax import softmax_bandwidth

    return softmax_bandwidth("cuda" if _has_gpu() else "cpu", progress)


def _modes(progress: Any) -> dict[str, Any]:
    from .experiments.modes import record_modes

    return record_modes("cuda" if _has_gpu() else "cpu", progress)


def _compile_gains(progress: Any) -> dict[str, Any]:
    from .experiments.compile_gains import compile_gains

    return compile_gains("cuda" if _has_gpu() else "cpu", progress)


def _checkpointing(progress: Any) -> dict[str, Any]:
    from .experiments.checkpointing import checkpoint_costs

    return checkpoint_costs("cuda" if _has_gpu() else "cpu", progress)


def _checkpointing_compiled(progress: Any) -> dict[str, Any]:
    from .experiments.checkpointing import COMPILED_STRATEGIES, checkpoint_costs

    return checkpoint_costs("cuda" if _has_gpu() else "cpu", progress, COMPILED_STRATEGIES)


def _dispatch(progress: Any) -> dict[str, Any]:
    from .experiments import subjects
    from .experiments.dispatch import dispatch_cost

    model = subjects.minigpt(device="cuda" if _has_gpu() else "cpu")
    return dispatch_cost(model, lambda batch: subjects.tokens(model, batch), progress)


def _backward_fusion(progress: Any) -> dict[str, Any]:
    from .experiments.backward_fusion import backward_fusion

    return backward_fusion("cuda" if _has_gpu() else "cpu", progress)


def _fidelity(progress: Any) -> dict[str, Any]:
    import torch

    from .experiments import subjects
    from .experiments.fidelity import fidelity, twin

    twin()  # refuses before anything is built
    model, block = subjects.minigpt(device="cuda"), subjects.gpt2_block("cuda")
    hidden = torch.randn(8, 256, 768, device="cuda")
    return fidelity({"MiniGPT": (model, subjects.tokens(model, 8)), "GPT-2 block": (block, (hidden,))}, progress)


def _generated_code(progress: Any) -> dict[str, Any]:
    from .experiments.generated_code import recorded_code

    return recorded_code("cuda" if _has_gpu() else "cpu", progress)


def _integer_powers(progress: Any) -> dict[str, Any]:
    from .experiments.integer_powers import integer_powers

    return integer_powers("cuda" if _has_gpu() else "cpu", progress)


def _pipeline(progress: Any) -> dict[str, Any]:
    from .experiments.pipeline import record_pipeline

    return record_pipeline("cuda" if _has_gpu() else "cpu", progress)


def _precision(progress: Any) -> dict[str, Any]:
    from .experiments.precision import record_precision

    return record_precision("cuda" if _has_gpu() else "cpu", progress)


def _overlap(progress: Any) -> dict[str, Any]:
    from .experiments.overlap import record_overlap

    return record_overlap("cuda" if _has_gpu() else "cpu", progress)


# Where a measurement needs a model, it takes it from compile_lab.experiments.subjects (imported inside the function).
MEASUREMENTS: dict[str, Measurement] = {
    "backward_fusion": Measurement(
        _backward_fusion, "LayerNorm(GELU(xW+b)) and its backward over shapes, kernel by kernel; accumulation", 150
    ),
    "checkpointing": Measurement(
        _checkpointing, "checkpoint strategies and memory budgets on a GPT of 24 layers: bytes, work, time, fits", 240
    ),
    "checkpointing_compiled": Measurement(
        _checkpointing_compiled, "the same for checkpoints under torch.compile, and further memory budgets", 210
    ),
    "collectives": Measurement(_collectives, "all-reduce, all-gather, reduce-scatter, send between 2 to 8 GPUs", 90),
    "compile_gains": Measurement(_compile_gains, "cases in which compiling helps much or little; CUDA graphs", 110),
    "dispatch": Measurement(_dispatch, "cost of eager dispatches: single operations, MiniGPT at growing batches", 25),
    "fidelity": Measurement(_fidelity, "kernels of this GPU against those of its virtual twin, source for source", 60),
    "generated_code": Measurement(_generated_code, "the code Inductor writes here for softmax and MiniGPT", 15),
    "graph_breaks": Measurement(_graph_breaks, "time of a pointwise chain with 0 to 7 graph breaks", 30),
    "modes": Measurement(_modes, "every mode of torch.compile on MiniGPT and GPT-2: compile time, time, launches", 290),
    "integer_powers": Measurement(_integer_powers, "integer powers with a symbolic exponent, as compiled", 15),
    "machine": Measurement(_machine, "copy bandwidth and matrix rates of this GPU", 15),
    "pipeline": Measurement(_pipeline, "pipeline schedules over several GPUs: bubbles, step times and memory", 140),
    "overlap": Measurement(_overlap, "communication hidden and exposed: DDP and FSDP2 on 2, 4 and 8 GPUs", 160),
    "precision": Measurement(_precision, "rates, errors, casts, training steps and losses in each precision", 120),
    "patterns": Measurement(_patterns, "step time and peak memory of each sharding pattern on 2 to 8 GPUs", 150),
    "patterns_compiled": Measurement(
        _patterns_compiled, "the same for 1.3 B with compiled blocks, on few sequences", 180
    ),
    "peaks": Measurement(_peaks, "peak memory predicted and measured: MiniGPT and GPT-2, eager to compiled", 120),
    "softmax": Measurement(_softmax, "softmax against copy: eager, generated, written by hand", 25),
}


def result(name: str) -> Recording:
    """The result `name`: measured here and now if there is a GPU (once a process), else as it was recorded.

    Its `provenance.kind` is "live" or "recorded", and a recording is never called live.
    Raises KeyError for a name that nothing measures, RecordingError where there is neither GPU nor recording.
    """
    if name not in MEASUREMENTS:
        raise KeyError(f"nothing measures {name!r}; there is {', '.join(MEASUREMENTS)}")
    return _measured_once(name) if _has_gpu() else recordings.load(name)


@functools.cache
def _measured_once(name: str) -> Recording:
    return _measured(name)


def progress(description: str) -> Callable[..., Any]:
    """A tqdm that goes away when it is done, and that a published notebook does not show."""
    silent = os.environ.get(PUBLISH) == "1"
    return functools.partial(tqdm, desc=description, file=sys.stderr, leave=False, disable=silent)


def _measured(name: str) -> Recording:
    measured = MEASUREMENTS[name].measure(progress=progress(name))
    return Recording(name, recordings.here(f"python -m compile_lab.record {name}"), measured)


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
        for name, one in MEASUREMENTS.items()
    ]
    return Table(["name", "measures", "takes about", "recorded on"], rows)


def record(names: Sequence[str], root: Path) -> None:
    """Measure each name and write it, one after the other: what is written is whole, whatever happens after it.

    Raises RecordingError, or OSError where `root` cannot be written.
    """
    root.mkdir(parents=True, exist_ok=True)
    for name in names:
        measured = _measured(name)
        path = recordings.save(name, measured.provenance, measured.result, root)
        print(f"{path.parent.name}/{path.name}: {replace(measured.provenance, kind='recorded')}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m compile_lab.record", description=__doc__.split("\n")[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help="what to measure; without a name: what there is")
    parser.add_argument("--out", metavar="DIR", type=Path, help="where to write (default: book/recordings)")
    parser.add_argument("--allow-cpu", action="store_true", help="try it without a GPU; needs --out")
    options = parser.parse_args(arguments)
    root = options.out or recordings.folder()
    if not options.names:
        print(listing(root))
        return 0
    if unknown := [name for name in options.names if name not in MEASUREMENTS]:
        parser.error(f"nothing measures {', '.join(unknown)}; there is {', '.join(MEASUREMENTS)}")
    if options.allow_cpu and not options.out:
        parser.error("--allow-cpu needs --out DIR: the book's own recordings are of GPUs")
    if not _has_gpu() and not options.allow_cpu:
        print(
            "A recording is of a real GPU, and torch finds none here: run this on a machine with one. Nothing was "
            "written. (--allow-cpu --out DIR tries the measurement on this CPU.)",
            file=sys.stderr,
        )
        return 1
    try:
        record(options.names, root)
    except KeyboardInterrupt:
        print("interrupted: what was not finished was not written", file=sys.stderr)
        return 130
    except (RecordingError, OSError) as error:
        print(f"not recorded: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
