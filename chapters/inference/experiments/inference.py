"""GPT-2 124M as a service that generates: first requests, prefill, decode, in each mode; a restart.

Each mode has a process of its own on a GPU; the modes come in random order, the one that searches last. It begins with
an empty cache folder and the compiler's workers awake, answers a stream of requests, is timed at many shapes, and
starts from nothing again, as often as there is a spread to know. What time has run out for says so.
"""

import contextlib
import functools
import gc
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import torch

from compile_lab.inference.service import Endpoint, PhaseCost, Request, Stream, phase_cost, serve, serving
from compile_lab.measure.child import LEAVE_S, Child
from compile_lab.measure.judge import relative_error
from compile_lab.measure.timing import sustained_ms
from compile_lab.modes.cost import from_nothing, wake_compiler
from compile_lab.simulator.serving import decode_work

from ...experiment import OUT_OF_TIME, Attempts, reason
from ...registry import Progress
from ...shared import subjects

T = TypeVar("T")
BUDGET_S = 360
"""No part is begun after this."""
SEARCH: dict[str, Any] = {}
"""Options that would limit max-autotune's search: none. At a batch of one its coordinate descent also decides whether
Inductor writes a matmul as a reduction of its own."""
MODES = ("eager", "default", "reduce-overhead", "max-autotune")
STARTS = {"default": 2, "reduce-overhead": 2}
"""How often a mode is started from nothing again."""
MODE_S = 200
"""The longest that a mode's process may take."""
COPY_NBYTES = {"cuda": 1 << 30, "cpu": 1 << 24}
PRODUCT = {"cuda": 8192, "cpu": 256}
RESTART_S = 40
"""The second process may take so long until it is ready, and to answer."""


@dataclass(frozen=True)
class ServicePlan:
    """One model, how it is served, and what is asked of it.

    ``usual`` is asked for ``many`` times, then each of ``new_shapes`` three times. ``decode`` and ``prefill`` are the
    batches, and the (batch, prompt) shapes, at which a phase is timed. ``searched`` modes get no new shapes.
    """

    name: str
    what: str
    build: Callable[[str], Any]
    usual: Request
    many: int
    new_shapes: tuple[Request, ...]
    decode: tuple[int, ...]
    prefill: tuple[tuple[int, int], ...]
    modes: tuple[str, ...] = MODES
    roofline: bool = False
    restart: bool = False

    def requests(self, mode: str) -> list[Request]:
        """What a mode's stream is asked for; no new shapes where each is a search of its own."""
        new = () if mode.startswith("max-autotune") else self.new_shapes
        return [self.usual] * self.many + [request for request in new for _ in range(3)]

    def shapes(self, mode: str) -> list[tuple[str, Request]]:
        """Where the phases are timed, the most telling first."""
        decode = [("decode", Request(batch, self.usual.prompt, 1)) for batch in self.decode]
        prefill = [("prefill", Request(*shape, 1)) for shape in self.prefill]
        few = mode.startswith("max-autotune")
        return [decode[0], prefill[0]] if few else [decode[0], prefill[0], *decode[1:], *prefill[1:]]


GPT2 = ServicePlan(
    "gpt2-124m",
    "GPT-2 124M, bf16, a cache of 1,024 slots",
    lambda device: subjects.with_cache(subjects.gpt2(device).to(torch.bfloat16), rows=256),
    Request(1, 128, 16),
    60,
    (Request(8, 512, 16), Request(4, 300, 16)),
    (1, 16, 128, 4, 64, 256),
    ((1, 128), (8, 128), (8, 512), (1, 512)),
    roofline=True,
    restart=True,
)
TINY = ServicePlan(
    "tiny",
    "a try-out on a CPU: one layer of 16 numbers",
    lambda device: subjects.with_cache(subjects.deep_gpt(1, 16, 2, 32, device, vocabulary=30), rows=4),
    Request(1, 4, 3),
    8,
    (Request(3, 6, 3),),
    (1, 4),
    ((1, 4),),
    modes=("eager", "default"),
    roofline=True,
    restart=True,
)
PLANS = {"cuda": (GPT2,), "cpu": (TINY,)}


def record(device: str, progress: Progress = iter, *, budget_s: float = BUDGET_S) -> dict[str, Any]:
    """Every model in every mode as a service, as plain JSON values; under five minutes on a large GPU.

    Returns ``{"rates": {"bytes_per_s", "flop_per_s"}, "search", "budget_s", "vocabulary", "models": [{"name", "what",
    "usual", "streams", "starts", "phases", "errors", "work", "slots", "restart", "import_s", "seconds", "stopped":
    {part: why}}]}``: streams, phases and work come from ``Stream.to_json``, and from ``PhaseCost`` and ``DecodeWork``
    as dicts; ``starts`` are further streams of a few requests, each begun from nothing; ``errors`` are those of
    `cache_error`, by mode; ``work`` counts the slots that a usual prompt fills, of the ``slots`` that the cache has.
    ``rates`` are medians of a copy (each byte read and written) and of a matmul in the first model's precision.
    ``seconds`` are those of each mode's process. On a CPU a tiny model tries the same code out.
    """
    until = time.monotonic() + budget_s
    rates = measured_rates(device)
    if device == "cuda":
        torch.cuda.empty_cache()
    models = {plan.name: _nothing_yet(plan) for plan in PLANS[device]}
    steps = [(plan, mode) for plan in PLANS[device] for mode in _order(plan.modes)]
    for plan, mode in progress(steps):
        found = models[plan.name]
        measure = _by_itself if device == "cuda" else _one_mode
        _run_or_record(found["stopped"], mode, until, functools.partial(measure, plan, mode, device, found, until))
        gc.collect()
    found = {"rates": rates, "search": SEARCH, "budget_s": budget_s, "vocabulary": subjects.GPT2_PADDED}
    return {**found, "models": list(models.values())}


def _order(modes: tuple[str, ...]) -> list[str]:
    """At random, always the same; a mode that searches last, so that it takes nobody's time."""
    return sorted(random.Random(0).sample(modes, len(modes)), key=lambda mode: mode.startswith("max-autotune"))


def _by_itself(plan: ServicePlan, mode: str, device: str, found: dict[str, Any], until: float) -> None:
    """`_one_mode` in a process of its own, so that what breaks there breaks nothing else.

    Raises EOFError if the process comes to an end without an answer, TimeoutError if it takes too long, RuntimeError
    with what it said if it fails.
    """
    begin = time.monotonic()
    with Child(_answer_by_itself, plan.name, mode, device, until) as child:
        own = _heard(child, dict, MODE_S)
        child.process.join(LEAVE_S)
    own["stopped"] = {**found["stopped"], **own["stopped"]}
    own["seconds"] = found["seconds"] | {mode: round(time.monotonic() - begin, 1)}
    for part, value in own.items():
        if isinstance(value, list):
            found[part] += value
        elif isinstance(value, dict) and isinstance(found[part], dict):
            found[part].update(value)
        elif value is not None:
            found[part] = value


def _answer_by_itself(pipe: Connection, name: str, mode: str, device: str, until: float) -> None:
    """The child: measure one mode and send what was found; what goes wrong is sent as a sentence."""
    try:
        plan = next(plan for plan in PLANS[device] if plan.name == name)
        found = _nothing_yet(plan)
        _one_mode(plan, mode, device, found, until)
        pipe.send(found)
    except Exception as error:
        pipe.send(reason(error))


def measured_rates(device: str) -> dict[str, float]:
    """What bounds a step here and now: bytes a second of a large copy, operations a second of a large matmul."""
    on = torch.device(device)
    nbytes, n = COPY_NBYTES[device], PRODUCT[device]
    source = torch.ones(nbytes // 4, device=on)
    target = torch.empty_like(source)
    a = torch.randn(n, n, device=on).to(torch.bfloat16 if device == "cuda" else torch.float32)
    copy_ms, product_ms = (
        sorted(sustained_ms(call, on)) for call in (lambda: target.copy_(source), lambda: torch.mm(a, a))
    )

    def rate(work: float, times_ms: list[float]) -> float:
        return float(f"{work / times_ms[len(times_ms) // 2] * 1e3:.5g}")

    return {"bytes_per_s": rate(2 * nbytes, copy_ms), "flop_per_s": rate(2 * n**3, product_ms)}


def _nothing_yet(plan: ServicePlan) -> dict[str, Any]:
    empty: dict[str, Any] = {"streams": [], "starts": [], "phases": [], "errors": {}, "stopped": {}, "seconds": {}}
    later = dict.fromkeys(("work", "slots", "restart", "import_s"))
    return {"name": plan.name, "what": plan.what, "usual": asdict(plan.usual), **empty, **later}


def _run_or_record(stopped: dict[str, str], part: str, until: float, measure: Callable[[], None]) -> None:
    """A part that breaks, or for which no time is left, is told of in ``stopped``; the recording goes on."""
    attempts = Attempts(until - time.monotonic())
    attempts.in_time(measure, part=part)
    stopped.update(attempts.by("part"))


def _one_mode(plan: ServicePlan, mode: str, device: str, found: dict[str, Any], until: float) -> None:
    """A mode's stream, its phases, its further starts, and the restart of the default mode, added to ``found``."""
    cached = plan.build(device)
    if why := without_broken_attention(cached, device):
        found["stopped"]["cuDNN"] = why
    if plan.roofline:
        found.update(work=asdict(_work(cached, plan.usual.prompt)), slots=cached.slots)
    endpoint = endpoint_of(cached, device)
    search = SEARCH if mode.startswith("max-autotune") else None
    with _from_nothing(device):
        compiled = endpoint.compiled(mode, search)
        found["streams"].append(serve(compiled, plan.requests(mode), until).to_json())
        if mode == "default" and plan.restart:
            _run_or_record(found["stopped"], "restart", until, functools.partial(_restart, plan, device, found))
        _run_or_record(
            found["stopped"],
            f"{mode}, errors",
            until,
            lambda: found["errors"].update({mode: cache_error(cached, compiled, plan.usual)}),
        )
        for number, (phase, request) in enumerate(plan.shapes(mode)):
            found["phases"].append(asdict(_phase_or_stopped(compiled, phase, request, until, watched=number < 2)))
    for _ in range(STARTS.get(mode, 0)):
        with _from_nothing(device):
            again = serve(endpoint.compiled(mode, search), [plan.usual] * AGAIN, until)
        found["starts"].append(again.to_json())


AGAIN = 4
"""Requests of a further start: those that compile, record and replay, and one more."""


def _from_nothing(device: str) -> contextlib.AbstractContextManager[None]:
    """An empty cache folder, the compiler's workers awake. On a CPU the standing folder: g++ would take minutes."""
    # To wake the compiler is a process's price, and no request's.
    return from_nothing(device) if device == "cuda" else contextlib.nullcontext()


def _restart(plan: ServicePlan, device: str, found: dict[str, Any]) -> None:
    import_s, stream = restarted(plan.name, device)
    found.update(import_s=import_s, restart=stream.to_json())


def cache_error(cached: Any, endpoint: Endpoint, request: Request) -> float:
    """How far a decode step's logits are from the whole model's, eager and without a cache, for the same tokens."""
    model, length = cached.model, request.prompt
    given, _ = subjects.tokens(model, request.batch, length + 1)
    places = torch.full((request.batch,), length, device=given.device)
    with serving():
        # As requests come: a view of longer sequences would have strides of its own, and be compiled for them.
        prompt, token = (each.clone(memory_format=torch.contiguous_format) for each in given.split([length, 1], 1))
        endpoint.prefill(prompt, places)
        logits = endpoint.decode(token.flatten(), places)
        return float(f"{relative_error(logits, model(given)[:, -1]):.3g}")


def without_broken_attention(cached: Any, device: str) -> str:
    """Switch cuDNN's attention off where it cannot run a decode step; why it was, or nothing if it stands.

    torch prefers it on large GPUs for some shapes, and it refuses some of them only when it is called.
    """
    if device != "cuda":
        return ""
    try:
        with serving():
            for batch in (1, 16, cached.rows):
                zeros = torch.zeros(batch, dtype=torch.int64, device=device)
                cached.decode(zeros, zeros)
            torch.cuda.synchronize()
    except RuntimeError as error:
        torch.backends.cuda.enable_cudnn_sdp(False)
        return f"cuDNN's attention is switched off: {reason(error)}"
    return ""


def endpoint_of(cached: Any, device: str) -> Endpoint:
    """What the instrument needs of a model with a cache."""
    return Endpoint(cached.prefill, cached.decode, cached.config.vocabulary, cached.rows, cached.slots, device)


def _work(cached: Any, slots: int) -> Any:
    config, itemsize = cached.config, cached.model.head.weight.element_size()
    sizes = config.layers, config.dim, config.vocabulary, slots
    return decode_work(*sizes, itemsize=itemsize, tied_head=config.tied_head)


def _phase_or_stopped(endpoint: Endpoint, phase: str, request: Request, until: float, watched: bool) -> PhaseCost:
    if time.monotonic() > until:
        return PhaseCost(phase, endpoint.mode, request, stopped=OUT_OF_TIME)
    try:
        return phase_cost(endpoint, phase, request, watched)
    except Exception as error:  # one shape's failure is that shape's result
        return PhaseCost(phase, endpoint.mode, request, stopped=reason(error))


def restarted(name: str, device: str) -> tuple[float, Stream]:
    """The first requests of a second process with this one's cache folder: seconds until it is ready, and its stream.

    Raises TimeoutError if it says nothing for ``RESTART_S`` seconds; EOFError if it comes to an end; RuntimeError, with
    what it said, if it fails.
    """
    begin = time.perf_counter()
    with Child(_serve_again, name, device) as child:
        _heard(child, float, RESTART_S)
        import_s = time.perf_counter() - begin
        stream = _heard(child, Stream, RESTART_S)
        child.process.join(LEAVE_S)  # by itself: a process that is killed leaves what it shares behind
    return round(import_s, 3), stream


def _heard(child: Child, kind: type[T], patience_s: float) -> T:
    said = child.heard(patience_s)
    if not isinstance(said, kind):
        raise RuntimeError(str(said))
    return said


def _serve_again(pipe: Connection, name: str, device: str) -> None:
    """The second process: import, build, then answer the usual request a few times in the default mode."""
    try:
        plan = next(plan for plan in PLANS[device] if plan.name == name)
        cached = plan.build(device)
        without_broken_attention(cached, device)
        endpoint = endpoint_of(cached, device)
        if device == "cuda":
            wake_compiler(device)
        pipe.send(time.time())
        pipe.send(serve(endpoint.compiled("default"), [plan.usual] * 8))
    except Exception as error:
        pipe.send(reason(error))
