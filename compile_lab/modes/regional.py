"""Compile a model whole, or the block that it repeats: what each costs, and what it gives.

A deep model is one block many times. torch.compile takes the model as one long program and compiles it all. Two ways
say that the block repeats: ``block.compile()`` on each, which compiles a block once and calls that from Python, and
``torch.compiler.nested_compile_region``, which keeps one graph of the whole model in which the block is a function.
"""

import contextlib
import copy
import functools
import gc
import itertools
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from .._torch.dynamo import dynamo_config, dynamo_utils, reset_dynamo
from ..doors import check_whole, door
from ..measure.allocator import peak
from ..measure.timing import summary_ms
from ..recordings import RecordedRow, Recording
from .cost import Quartiles, Step, device_of, from_nothing
from .crossing import seconds
from .cuda_graphs import count_launches
from .payback import LEAST_SAMPLES, Payback, payback

WAYS = ("eager", "blocks", "region", "whole")
"""In the order in which they are compiled, the cheap ones first."""
FIRST_CALLS = 2


@dataclass(frozen=True)
class WayCost(RecordedRow):
    """What one way of compiling a model costs, and what a step then takes. What was not measured is None.

    ``compile_s`` is what the first calls took beyond as many later ones, from an empty cache folder, in a process
    whose compiler is loaded; ``compile_cpu_s`` is the work of this process alone in it. Where that was done several
    times, ``compile_s`` is the median, and ``payback`` has all of them and carries their spread.
    ``graphs`` is how many graphs Dynamo made. ``payback`` compares the step with eager's, in turn.
    """

    way: str
    compile_s: float | None = None
    compile_cpu_s: float | None = None
    graphs: int | None = None
    step: Quartiles | None = None
    payback: Payback | None = None
    kernels: float | None = None
    peak_nbytes: int | None = None
    stopped: str = ""


@dataclass(frozen=True)
class Regional:
    """All ways on one model: ``what`` it is in words, ``training`` or inference, ``layers`` of width ``dim``."""

    name: str
    what: str
    layers: int
    dim: int
    training: bool
    series: bool
    """It is one of a series of depths, of the same width and input."""
    ways: Mapping[str, WayCost]
    provenance: object = None

    @property
    def done(self) -> dict[str, WayCost]:
        """The ways that came to an end, eager among them."""
        return {name: cost for name, cost in self.ways.items() if cost.step}


@door
def recorded(recording: Recording) -> list[Regional]:
    """The models of a recording, in its order.

    >>> from compile_lab.modes.regional import recorded
    >>> from compile_lab.recordings import load
    >>> model = recorded(load("regional", "NVIDIA H100 80GB HBM3"))[0]
    >>> model.name, list(model.ways)
    ('2 layers', ['eager', 'blocks', 'region', 'whole'])
    """
    return [
        Regional(
            **{key: value for key, value in one.items() if key != "ways"},
            ways={way["way"]: WayCost.from_json(way) for way in one["ways"]},
            provenance=recording.provenance,
        )
        for one in recording.result["subjects"]
    ]


@door
def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """The blocks that a model repeats: all of one class, in its ModuleList (or Sequential) of most parameters.

    Raises ValueError if it has none with at least two of one class.

    >>> import torch
    >>> from compile_lab.modes.regional import repeated_blocks
    >>> blocks = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))
    >>> len(repeated_blocks(torch.nn.ModuleDict({"embedding": torch.nn.Embedding(8, 4), "blocks": blocks})))
    3
    """
    lists = [
        list(module)
        for module in model.modules()
        if isinstance(module, nn.ModuleList | nn.Sequential)
        and len(module) > 1
        and len({type(each) for each in module}) == 1
    ]
    if not lists:
        raise ValueError(
            f"{type(model).__name__} repeats no block: no ModuleList or Sequential of it has two modules of one class. "
            "Compile it whole, or call compile() on the modules you choose"
        )
    return max(lists, key=lambda blocks: sum(weight.numel() for block in blocks for weight in block.parameters()))


@door
def compiled(model: nn.Module, way: str, mode: str = "default") -> nn.Module:
    """A model compiled in one of `WAYS`, ready to be called: another object that holds the same parameters.

    Raises ValueError for another way, and where a way is of blocks and the model repeats none.

    >>> import torch
    >>> from compile_lab.modes.regional import compiled
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    >>> [type(compiled(model, way)).__name__ for way in ("eager", "blocks", "region", "whole")]
    ['Sequential', 'Sequential', 'OptimizedModule', 'OptimizedModule']
    """
    if way not in WAYS:
        raise ValueError(f"unknown way {way!r}; a model is compiled as {', '.join(WAYS)}")
    held = itertools.chain(model.parameters(), model.buffers())
    other = copy.deepcopy(model, {id(tensor): tensor for tensor in held})
    if way == "eager":
        return other
    if way == "blocks":
        for block in repeated_blocks(other):
            block.compile(mode=mode)
        return other
    if way == "region":
        blocks = repeated_blocks(other)
        region = torch.compiler.nested_compile_region(type(blocks[0]).forward)
        marked = type(type(blocks[0]).__name__, (type(blocks[0]),), {"forward": region})
        for block in blocks:
            block.__class__ = marked
    whole = torch.compile(other, mode=mode)
    assert isinstance(whole, nn.Module)  # of a module; of a function it is one
    return whole


@dataclass
class _Entrant:
    called: nn.Module
    first_s: float = 0.0
    cpu_s: float = 0.0
    graphs: int = 0
    taken_ms: list[float] = field(default_factory=list)
    peak_nbytes: int | None = None
    kernels: float | None = None


class WaysRace:
    """The ways of one model, first compiled one after the other, then timed in turn, step by step.

    ``step(called)`` makes one step with the model that it is given.
    """

    def __init__(self, model: nn.Module, step: Step, mode: str = "default") -> None:
        self.model, self.step, self.mode, self.device = model, step, mode, device_of(model)
        self._entrants: dict[str, _Entrant] = {}
        self._rehearsed: dict[str, list[float]] = {}
        self._stopped: dict[str, str] = {}

    def rehearse(self, way: str) -> None:
        """Compile it in this way from an empty cache folder, keep how long that took, and forget what was compiled.

        Before any way enters: what entered is forgotten, too. ValueError as in `compiled`.
        """
        reset_dynamo()
        called = compiled(self.model, way, self.mode)
        with self._from_nothing():
            self._rehearsed.setdefault(way, []).append(self._first_calls(called)[0])
        reset_dynamo()

    def _first_calls(self, called: nn.Module) -> tuple[float, float]:
        """Seconds of the first steps, and of this process's work in them."""
        begin, worked = seconds(self.device), time.process_time()
        for _ in range(FIRST_CALLS):
            self.step(called)
        return seconds(self.device) - begin, time.process_time() - worked

    def enter(self, way: str) -> None:
        """Compile it in this way from an empty cache folder, and time that. ValueError as in `compiled`."""
        entrant = _Entrant(compiled(self.model, way, self.mode))
        with self._from_nothing() if way != "eager" else contextlib.nullcontext():
            made = dynamo_utils.counters["stats"]["unique_graphs"]
            entrant.first_s, entrant.cpu_s = self._first_calls(entrant.called)
        entrant.graphs = dynamo_utils.counters["stats"]["unique_graphs"] - made
        if way != "eager" and not entrant.graphs:
            raise RuntimeError(f"{way}: Dynamo made no graph, so nothing that is timed would be compiled")
        self._entrants[way] = entrant

    def leave_out(self, way: str, why: str) -> None:
        """This way will be told as stopped, and why."""
        self._entrants.pop(way, None)
        self._stopped[way] = why

    def run(self, samples: int = 25, most_s: float = 4.0) -> None:
        """Time a step of each way in turn, ``samples`` times, or at least five times and until ``most_s`` are over."""
        check_whole("samples", samples, least=LEAST_SAMPLES)
        for entrant in self._entrants.values():
            self.step(entrant.called)
            with peak(self.device) as memory:
                self.step(entrant.called)
            entrant.peak_nbytes = memory.peak_nbytes
        ends = time.perf_counter() + most_s
        gc.collect()
        for done in range(samples):
            if done >= LEAST_SAMPLES and time.perf_counter() > ends:
                break
            order = list(self._entrants.values())
            for entrant in order if done % 2 else reversed(order):
                begin = seconds(self.device)
                self.step(entrant.called)
                entrant.taken_ms.append(1e3 * (seconds(self.device) - begin))

    def count(self) -> None:
        """On a GPU: how many kernels a step of each way launches."""
        for entrant in self._entrants.values():
            if self.device == "cuda" and (seen := count_launches(functools.partial(self.step, entrant.called), 1)):
                entrant.kernels = seen.kernels

    def costs(self) -> dict[str, WayCost]:
        """What each way costs, after `run`. ValueError if no steps were timed."""
        eager = self._entrants["eager"].taken_ms if "eager" in self._entrants else []
        found = {
            way: _cost(way, entrant, eager, self._rehearsed.get(way, [])) for way, entrant in self._entrants.items()
        }
        return {**found, **{way: WayCost(way, stopped=why) for way, why in self._stopped.items()}}

    @contextlib.contextmanager
    def _from_nothing(self) -> Iterator[None]:
        with dynamo_config.patch(recompile_limit=64), from_nothing(self.device, 8 + len(self._entrants)):
            yield


def _cost(way: str, entrant: _Entrant, eager_ms: list[float], rehearsed_s: list[float]) -> WayCost:
    if not entrant.taken_ms:
        raise ValueError(f"{way} has no samples: run() times the steps")
    step, middle = Quartiles(**summary_ms(entrant.taken_ms, 4)), statistics.median(entrant.taken_ms)
    counts = functools.partial(WayCost, graphs=entrant.graphs, kernels=entrant.kernels, peak_nbytes=entrant.peak_nbytes)
    if way == "eager":
        return counts(way, step=step)
    beyond_s = FIRST_CALLS * middle / 1e3
    runs_s = [round(max(0.0, first_s - beyond_s), 3) for first_s in (*rehearsed_s, entrant.first_s)]
    return counts(
        way,
        compile_s=statistics.median(runs_s),
        compile_cpu_s=round(max(0.0, entrant.cpu_s - beyond_s), 3),
        step=step,
        payback=payback(runs_s, eager_ms, entrant.taken_ms) if eager_ms else None,
    )
