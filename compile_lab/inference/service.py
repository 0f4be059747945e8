"""A service that generates, held to the clock: prefill and decode apart, request by request, mode by mode.

It knows no model. An ``Endpoint`` is two callables, one that reads prompts and one that reads a token more of each
sequence; a ``Request`` is a shape. ``serve`` answers requests one after the other, as a service that has just been
started would, and keeps of each how long it took and how much was compiled for it. From two such streams follows after
how many requests compiling has paid.
"""

import contextlib
import functools
import gc
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from .._torch.dynamo import dynamo_config, dynamo_utils, reset_dynamo
from ..capture import NotCompiledError
from ..doors import check_whole, door
from ..measure.host import HostCost, host_cost
from ..measure.timing import collector_off, fp32_meant, samples_us, wait
from ..modes.cost import MODES, Quartiles, break_even_calls, torch_compile
from ..modes.cuda_graphs import Launches, count_launches
from ..recordings import RecordedRow
from ..simulator.payback import ONCE

Read = Callable[[Tensor, Tensor], Tensor]
PHASES = ("prefill", "decode")
WARM_UP = 3
"""Requests or calls: the first compiles, and with CUDA graphs the second records, the third replays."""
SAMPLES = 15
SHAPES = 64
"""So many compilations of one function are allowed. Dynamo's own limit of 8 would hand the rest to eager, silently."""


@dataclass(frozen=True)
class Request:
    """A batch of sequences with a prompt of so many tokens each, and so many new tokens wanted of each."""

    batch: int
    prompt: int
    new_tokens: int

    def __post_init__(self) -> None:
        for name in ("batch", "prompt", "new_tokens"):
            check_whole(f"Request.{name}", getattr(self, name))

    @property
    def tokens(self) -> int:
        """New tokens in all."""
        return self.batch * self.new_tokens

    def __str__(self) -> str:
        return f"{self.batch} × {self.prompt} + {self.new_tokens}"


@dataclass(frozen=True)
class Endpoint:
    """What answers requests. Ids are drawn below ``vocabulary``; ``rows`` and ``slots`` are the size of its cache.

    ``prefill(tokens [batch, length], lengths [batch])`` and ``decode(tokens [batch], positions [batch])``, all int64,
    return logits [batch, vocabulary] and keep what they must remember between calls.
    """

    prefill: Read
    decode: Read
    vocabulary: int
    rows: int
    slots: int
    device: str = "cpu"
    mode: str = "eager"
    search: Mapping[str, Any] = field(default_factory=dict)
    since: int = 0
    """Graphs that this process had compiled before this endpoint was made."""

    def compiled(self, mode: str = "default", options: Mapping[str, Any] | None = None) -> "Endpoint":
        """The same with both functions compiled in a mode of torch.compile, or as it is for "eager".

        All code compiled before is forgotten, as in a new process; what the cache folder holds is not. ``options`` are
        Inductor's, on top of the mode's own. ValueError for an unknown mode.
        """
        if mode not in MODES:
            raise ValueError(f"unknown mode {mode!r}; the modes are {', '.join(MODES)}")
        reset_dynamo()
        if mode == "eager":
            return self
        prefill, decode = (torch_compile(each, mode, options) for each in (self.prefill, self.decode))
        since = _compiled_graphs()
        return replace(self, prefill=prefill, decode=decode, mode=mode, search=dict(options or {}), since=since)

    def fits(self, request: Request) -> None:
        """ValueError for a request that the cache has no room for: too many sequences, or too long."""
        if request.batch > self.rows:
            raise ValueError(f"request {request}: its batch is over the cache's {self.rows} rows; serve it in parts")
        need = request.prompt + request.new_tokens - 1
        if need > self.slots:
            raise ValueError(f"request {request} needs {need} slots a sequence, and the cache has {self.slots}: cut it")


@dataclass(frozen=True)
class Answer:
    """One request as it was answered: milliseconds until its first token, and from there to its last."""

    number: int
    request: Request
    prefill_ms: float
    decode_ms: float
    compilations: int

    @property
    def total_ms(self) -> float:
        return self.prefill_ms + self.decode_ms


@dataclass(frozen=True)
class Stream:
    """Requests that one process answered one after the other, beginning with nothing compiled.

    ``search``: the options that limited a search. ``stopped``: why it came to an end early, with the answers till then.
    """

    mode: str
    answers: tuple[Answer, ...]
    search: Mapping[str, Any] = field(default_factory=dict)
    stopped: str = ""

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Stream":
        """The same from what a recording keeps (`to_json`)."""
        requests = [Request(*shape) for *shape, times in fields["requests"] for _ in range(times)]
        columns = zip(requests, fields["prefill_ms"], fields["decode_ms"], fields["compilations"], strict=True)
        answers = tuple(Answer(number, *each) for number, each in enumerate(columns, 1))
        return cls(fields["mode"], answers, fields["search"], fields["stopped"])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, as columns: ``requests`` are [batch, prompt, new_tokens, times in a row]."""
        alike = [(request, len(list(group))) for request, group in itertools.groupby(a.request for a in self.answers)]
        return {
            "mode": self.mode,
            "requests": [[one.batch, one.prompt, one.new_tokens, times] for one, times in alike],
            "prefill_ms": [answer.prefill_ms for answer in self.answers],
            "decode_ms": [answer.decode_ms for answer in self.answers],
            "compilations": [answer.compilations for answer in self.answers],
            "search": dict(self.search),
            "stopped": self.stopped,
        }

    @property
    def compilations(self) -> dict[int, int]:
        """How many graphs were compiled for a request, by its number; those for which none was are left out."""
        return {answer.number: answer.compilations for answer in self.answers if answer.compilations}

    def of(self, request: Request) -> list[Answer]:
        """The answers to requests of this shape."""
        return [answer for answer in self.answers if answer.request == request]

    def settled(self, request: Request) -> Quartiles | None:
        """Milliseconds of a request of this shape, but for the first three and those that compiled: median, quartiles.

        None with fewer than four such requests.
        """
        found = [answer.total_ms for answer in self.of(request)[WARM_UP:] if not answer.compilations]
        if len(found) < 4:
            return None
        low, median, high = statistics.quantiles(found, n=4)
        return Quartiles(median, low, high)

    def invested_s(self, request: Request) -> float | None:
        """Seconds of the first three such requests beyond settled ones: compiling, tuning, recording CUDA graphs."""
        if (settled := self.settled(request)) is None:
            return None
        return sum(max(0.0, answer.total_ms - settled.median_ms) for answer in self.of(request)[:WARM_UP]) / 1e3

    def tokens_per_s(self, request: Request) -> float | None:
        """New tokens a second, once settled."""
        settled = self.settled(request)
        return None if settled is None else request.tokens / settled.median_ms * 1e3


@dataclass(frozen=True)
class WarmUp:
    """What was done before the first request: seconds, and graphs compiled."""

    seconds: float
    compilations: int


@dataclass(frozen=True)
class PhaseCost(RecordedRow):
    """One phase in one mode at one shape: a prefill of a prompt, or one decode step after it.

    ``first_s`` is what the first three calls took beyond three settled ones; ``call`` is None if it was ``stopped``.
    ``launches`` and ``host``, where they were asked for: what a call launches on a GPU, and costs the host.
    """

    phase: str
    mode: str
    request: Request
    call: Quartiles | None = None
    first_s: float | None = None
    compilations: int = 0
    stopped: str = ""
    launches: Launches | None = None
    host: HostCost | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens of the prompts read, or new tokens written, in a second."""
        if self.call is None:
            return None
        each = self.request.prompt if self.phase == "prefill" else 1
        return self.request.batch * each / self.call.median_ms * 1e3


@dataclass(frozen=True)
class RequestPayback:
    """After how many requests a mode has earned back what it cost beyond another; None is never.

    ``low`` and ``high`` are the same with the quartiles of both modes' times, and with the least and the most that
    starting cost, at their most and least favourable.
    """

    mode: str
    against: str
    invested_s: float
    saved_ms: float
    requests: int | None
    low: int | None
    high: int | None


@door
def serve(endpoint: Endpoint, requests: Sequence[Request], until: float = math.inf) -> Stream:
    """Answer requests one after the other, the likeliest token each time, and keep how long each took.

    What is compiled for a request is that request's time: ``serve(endpoint.compiled("default"), requests)`` is a
    service that has just been started. No request is begun after ``until``, a time of ``time.monotonic``.
    ValueError for no requests or one that does not fit; NotCompiledError if nothing was compiled in a compiled mode.

    >>> import torch
    >>> from compile_lab.inference import Endpoint, Request, serve
    >>> endpoint = Endpoint(lambda *_: torch.eye(1, 8), lambda *_: torch.eye(1, 8), vocabulary=8, rows=1, slots=16)
    >>> stream = serve(endpoint, [Request(batch=1, prompt=4, new_tokens=3)] * 2)
    >>> [(answer.number, str(answer.request), answer.compilations) for answer in stream.answers]
    [(1, '1 × 4 + 3', 0), (2, '1 × 4 + 3', 0)]
    """
    if not requests:
        raise ValueError("requests is empty; give at least one Request")
    for request in requests:
        endpoint.fits(request)
    answers, stopped = [], ""
    with serving():
        for number, request in enumerate(requests, 1):
            if time.monotonic() > until:
                stopped = f"time was used up before request {number}"
                break
            answers.append(_answered(endpoint, number, request))
    _proved(endpoint)
    return Stream(endpoint.mode, tuple(answers), dict(endpoint.search), stopped)


@door
def warm_up(endpoint: Endpoint, requests: Sequence[Request]) -> WarmUp:
    """Answer each request three times before anybody waits for it, so that all is compiled and recorded.

    The same ``endpoint`` then serves. ValueError for a request that does not fit.

    >>> import torch
    >>> from compile_lab.inference import Endpoint, Request, warm_up
    >>> endpoint = Endpoint(lambda *_: torch.eye(1, 8), lambda *_: torch.eye(1, 8), vocabulary=8, rows=1, slots=16)
    >>> warm_up(endpoint, [Request(batch=1, prompt=4, new_tokens=3)]).compilations
    0
    >>> warm_up(endpoint, [Request(batch=1, prompt=16, new_tokens=3)])
    Traceback (most recent call last):
        ...
    ValueError: request 1 × 16 + 3 needs 18 slots a sequence, and the cache has 16: cut it
    """
    for request in requests:
        endpoint.fits(request)
    begin = time.perf_counter()
    with serving():
        done = [_answered(endpoint, 1, request) for request in requests for _ in range(WARM_UP)]
    return WarmUp(time.perf_counter() - begin, sum(answer.compilations for answer in done))


@door
def phase_cost(endpoint: Endpoint, phase: str, request: Request, watched: bool = False) -> PhaseCost:
    """Time of one prefill of ``request``'s prompts, or of one decode step after them, and what its first calls took.

    ``watched``: also what a call launches, and what it costs the host, which takes a second longer.
    ValueError for an unknown phase or a request that does not fit; NotCompiledError as in ``serve``.

    >>> import torch
    >>> from compile_lab.inference import Endpoint, Request, phase_cost
    >>> endpoint = Endpoint(lambda *_: torch.eye(1, 8), lambda *_: torch.eye(1, 8), vocabulary=8, rows=1, slots=16)
    >>> cost = phase_cost(endpoint, "decode", Request(batch=1, prompt=4, new_tokens=3))
    >>> cost.phase, cost.mode, cost.compilations, cost.tokens_per_s > 0
    ('decode', 'eager', 0, True)
    """
    if phase not in PHASES:
        raise ValueError(f"unknown phase {phase!r}; the phases are {', '.join(PHASES)}")
    endpoint.fits(request)
    read, drawn, positions = _inputs(endpoint, phase, request)
    call = functools.partial(read, drawn, positions)
    with serving():
        before, begin = _compiled_graphs(), time.perf_counter()
        for _ in range(WARM_UP):
            call()
        wait(endpoint.device)
        first_s = time.perf_counter() - begin
        compilations = _compiled_graphs() - before
        spread = Quartiles.of_us(samples_us(call, endpoint.device, SAMPLES))
        host = host_cost(call, endpoint.device) if watched else None
        launches = count_launches(call) if watched and endpoint.device == "cuda" else None
    _proved(endpoint)
    beyond = round(max(0.0, first_s - WARM_UP * spread.median_ms / 1e3), 4)
    return PhaseCost(phase, endpoint.mode, request, spread, beyond, compilations, launches=launches, host=host)


@door
def payback(
    stream: Stream, against: Stream, request: Request, starts: Mapping[str, Sequence[Stream]] | None = None
) -> RequestPayback | None:
    """After how many requests of this shape ``stream``'s mode has paid, beside ``against``'s, with an interval.

    Both compile: what is earned back is what one invested beyond the other. ``starts`` has further streams of a mode,
    each begun from nothing: what starting cost is then the median, and the interval has its spread. A start that was
    measured once is taken to vary as `ONCE` says. None where a stream has too few requests of this shape to say.

    >>> from compile_lab.inference import Answer, Request, Stream, payback
    >>> request = Request(batch=1, prompt=4, new_tokens=3)
    >>> def stream(mode, first_ms, later_ms):
    ...     times = enumerate([first_ms] + [later_ms] * 7, start=1)
    ...     return Stream(mode, tuple(Answer(number, request, ms, 0.0, compilations=0) for number, ms in times))
    >>> payback(stream("default", 4020.0, 10.0), stream("eager", 20.0, 20.0), request)
    RequestPayback(mode='default', against='eager', invested_s=4.01, saved_ms=10.0, requests=401, low=201, high=802)
    """
    one, other = stream.settled(request), against.settled(request)
    if one is None or other is None:
        return None
    more, less = (
        _invested_s(each, settled.median_ms, request, (starts or {}).get(each.mode, ()))
        for each, settled in ((stream, one), (against, other))
    )
    sums_s = [max(0.0, statistics.median(more) - statistics.median(less))]
    sums_s += [max(0.0, min(more) - max(less)), max(0.0, max(more) - min(less))]
    pairs = [(other.median_ms, one.median_ms), (other.high_ms, one.low_ms), (other.low_ms, one.high_ms)]
    requests, low, high = (break_even_calls(s, *pair) for s, pair in zip(sums_s, pairs, strict=True))
    saved_ms = other.median_ms - one.median_ms
    return RequestPayback(stream.mode, against.mode, sums_s[0], saved_ms, requests, low, high)


def _invested_s(stream: Stream, settled_ms: float, request: Request, starts: Sequence[Stream]) -> list[float]:
    """What each start cost beyond settled requests, all starts of one mode."""
    firsts = [each.of(request)[:WARM_UP] for each in (stream, *starts)]
    found = [sum(max(0.0, answer.total_ms - settled_ms) for answer in first) / 1e3 for first in firsts]
    return found if len(found) > 1 or stream.mode == "eager" else [found[0] / ONCE, found[0], found[0] * ONCE]


@contextlib.contextmanager
def serving() -> Iterator[None]:
    """As a service runs: no gradients, no pauses of Python's collector, as many compiled shapes as are asked for."""
    gc.collect()
    with collector_off(), torch.no_grad(), dynamo_config.patch(recompile_limit=SHAPES), fp32_meant():
        yield


def _answered(endpoint: Endpoint, number: int, request: Request) -> Answer:
    _, tokens, positions = _inputs(endpoint, "prefill", request)
    wait(endpoint.device)
    before, begin = _compiled_graphs(), time.perf_counter()
    token = endpoint.prefill(tokens, positions).argmax(-1)
    wait(endpoint.device)
    first = time.perf_counter()
    for _ in range(request.new_tokens - 1):
        token = endpoint.decode(token, positions).argmax(-1)
        positions = positions + 1
    wait(endpoint.device)
    last = time.perf_counter()
    return Answer(
        number, request, round((first - begin) * 1e3, 4), round((last - first) * 1e3, 4), _compiled_graphs() - before
    )


def _inputs(endpoint: Endpoint, phase: str, request: Request) -> tuple[Read, Tensor, Tensor]:
    """A phase's function with random ids, always the same, and the lengths or positions of full prompts."""
    shape = (request.batch, request.prompt) if phase == "prefill" else (request.batch,)
    drawn = torch.randint(endpoint.vocabulary, shape, generator=torch.Generator().manual_seed(0))
    # A decode step costs the same at any position: a static cache is read whole.
    positions = torch.full((request.batch,), request.prompt if phase == "prefill" else request.prompt - 1)
    return getattr(endpoint, phase), drawn.to(endpoint.device), positions.to(endpoint.device)


def _proved(endpoint: Endpoint) -> None:
    if endpoint.mode != "eager" and _compiled_graphs() <= endpoint.since:
        raise NotCompiledError(f"mode {endpoint.mode!r} compiled nothing: what was timed is eager code")


def _compiled_graphs() -> int:
    """Graphs that this process has compiled, by torch's own counter."""
    return dynamo_utils.counters["stats"]["unique_graphs"]
