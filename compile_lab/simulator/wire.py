"""Overlap on paper: DDP's buckets, or the order of a compiled step, carried out with given times and one wire.

What is assumed: one wire that carries one collective after the other, in the order in which they are started; a
computation that is not slowed down by it; and all ranks alike. So no rank waits for another.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..doors import check_amount, check_whole, door, shown
from .overlap import Overlap, Span, Transfer, overlap_of

MB = 2**20
MOST_MATMULS = 100_000  # of a step that is written out
"""As DDP counts: ``bucket_cap_mb`` is in units of 2²⁰ bytes."""


class Gradient(NamedTuple):
    """One parameter's gradient, of `nbytes`, which is ready `ready_ms` after the start of the backward."""

    ready_ms: float
    nbytes: int


@door
def buckets(nbytes: Sequence[int], cap_nbytes: float, first_nbytes: float | None = None) -> list[list[int]]:
    """Which gradients does DDP send together? Lists of positions in `nbytes`, the sizes in the order of their making.

    A bucket is closed once it has `cap_nbytes` or more; so a large gradient can make it much larger than the cap. The
    first is closed at `first_nbytes`: DDP takes 1 MB with its default cap of 25 MB, and otherwise the cap.
    Raises ValueError for a cap that is not above 0, and for a gradient of less than 0 bytes.

    >>> from compile_lab.simulator import buckets
    >>> buckets([30, 50, 40, 200, 10], cap_nbytes=100, first_nbytes=30)
    [[0], [1, 2, 3], [4]]
    """
    check_amount("a gradient of nbytes", *nbytes)
    if not (cap_nbytes > 0 and (first_nbytes or cap_nbytes) > 0):
        raise ValueError(f"cap_nbytes={cap_nbytes}, first_nbytes={first_nbytes}: a bucket holds more than 0 bytes")
    members: list[list[int]] = []
    full = True
    for position, size in enumerate(nbytes):
        if full:
            members.append([])
            held = 0
        members[-1].append(position)
        held += size
        full = held >= (first_nbytes or cap_nbytes if len(members) == 1 else cap_nbytes)
    return members


@door
def ddp_overlap(
    gradients: Sequence[Gradient],
    backward_ms: float,
    *,
    cap_nbytes: float,
    bytes_per_ms: float | None = None,
    collective_ms: Callable[[int], float] | None = None,
    first_nbytes: float | None = None,
    latency_ms: float = 0.0,
    forward_ms: float = 0.0,
    optimizer_ms: float = 0.0,
) -> Overlap:
    """When does DDP send which bucket, and how much of it is exposed?

    `gradients` stand in the order in which the backward makes them. A bucket starts when its last gradient is ready
    and the wire is free, and takes `latency_ms` plus its bytes over `bytes_per_ms`, or what `collective_ms` says for so
    many bytes. The optimizer starts when the backward is done and the last bucket has arrived. Times in the result
    count from the start of the forward.

    Raises ValueError where there is no gradient, one is ready after the backward's end, the wire has no speed, or a
    time is below 0.

    >>> from compile_lab.simulator import MB, Gradient, ddp_overlap
    >>> gradients = [Gradient(ready_ms, 10 * MB) for ready_ms in (2, 4, 6, 8)]
    >>> for cap_nbytes in (10 * MB, 40 * MB):
    ...     print(ddp_overlap(gradients, 8, cap_nbytes=cap_nbytes, bytes_per_ms=5 * MB))
    4 collectives, 8 ms of communication, of which 75 % hidden behind 8 ms of compute; exposed 2 ms
    1 collectives, 8 ms of communication, of which 0 % hidden behind 8 ms of compute; exposed 8 ms
    """
    if not gradients or max(each.ready_ms for each in gradients) > backward_ms:
        raise ValueError(f"give at least one gradient, each ready within the backward's {backward_ms} ms")
    if collective_ms is None:
        if not (bytes_per_ms and bytes_per_ms > 0):
            raise ValueError(f"bytes_per_ms={bytes_per_ms}: a wire carries more than 0 bytes in a millisecond")
        rate = bytes_per_ms
    for name, time in (("latency_ms", latency_ms), ("forward_ms", forward_ms), ("optimizer_ms", optimizer_ms)):
        check_amount(name, time)
    takes = collective_ms or (lambda nbytes: latency_ms + nbytes / rate)
    collectives, free = [], 0.0
    for members in buckets([each.nbytes for each in gradients], cap_nbytes, first_nbytes):
        size = sum(gradients[at].nbytes for at in members)
        start = max(free, forward_ms + max(gradients[at].ready_ms for at in members))
        free = start + takes(size)
        collectives.append(Transfer("all_reduce", start, free, size, 0.0))
    computed = forward_ms + backward_ms
    done = max(computed, free)
    compute = [Span(0, computed), Span(done, done + optimizer_ms)]
    phases = {"forward": Span(0, forward_ms), "gradients": Span(forward_ms, computed)}
    phases |= {"backward": Span(forward_ms, done), "optimizer": Span(done, done + optimizer_ms)}
    return overlap_of(compute, collectives, phases)


COLLECTIVES = {"AG": "all_gather", "RS": "reduce_scatter", "AR": "all_reduce"}
"""What starts a collective in an order: "AG3" an all-gather. "w3" waits for the collective that "…3" started."""


@door
def step_of(order: Sequence[str], compute_ms: float, collective_ms: float | Sequence[float]) -> Overlap:
    """How long does a compiled step take, and what is exposed? `order` is as `devices.compiled_collectives` reads it.

    Each matmul ("MM") takes `compute_ms`, other kernels ("k") no time. A collective ("AG0", "RS1", …) starts at
    once if the wire is free, and takes `collective_ms`: a number, or one for each. "w0" waits for collective 0.
    Raises ValueError for a wait whose collective has not been started, where a collective is not waited for, and for
    times below 0 or not one for each collective.

    >>> from compile_lab.simulator.wire import step_of
    >>> print(step_of("AG0 w0 AG1 MM w1 MM".split(), compute_ms=3, collective_ms=2))
    2 collectives, 4 ms of communication, of which 50 % hidden behind 6 ms of compute; exposed 2 ms
    """
    check_amount("compute_ms", compute_ms)
    check_amount("collective_ms", *([collective_ms] if isinstance(collective_ms, int | float) else collective_ms))
    started = sum(token.rstrip("0123456789") in COLLECTIVES for token in order)
    if not isinstance(collective_ms, int | float) and len(collective_ms) != started:
        raise ValueError(f"collective_ms has {len(collective_ms)} times, and the order {started} collectives: one each")
    now = free = 0.0
    compute, ends, waiting = [], {}, set()
    collectives: list[Transfer] = []
    for token in order:
        kind, number = token.rstrip("0123456789"), token[len(token.rstrip("0123456789")) :]
        if kind == "MM":
            compute.append(Span(now, now := now + compute_ms))
        elif kind in COLLECTIVES:
            start = max(now, free)
            at = len(collectives)
            free = start + (collective_ms if isinstance(collective_ms, int | float) else collective_ms[at])
            collectives.append(Transfer(COLLECTIVES[kind], start, free, None, 0.0))
            ends[number] = free
            waiting.add(number)
        elif kind == "w":
            if number not in ends:
                raise ValueError(f"{token} waits for a collective that has not been started: {' '.join(order)}")
            now = max(now, ends[number])
            waiting.discard(number)
    if waiting:
        raise ValueError(f"nobody waits for {', '.join(sorted(waiting))} in {' '.join(order)}")
    return overlap_of(compute, collectives)


@door
def measured_wire(rates: Sequence[Mapping[str, Any]], kind: str) -> Callable[[int], float]:
    """How many milliseconds a collective of so many bytes takes, as a function, from measured rates of a wire.

    `rates` are rows of the recording `collectives`, for one number of ranks. Times between two measured sizes lie on
    the line through both; beyond the largest size its bandwidth holds. Raises ValueError for a kind that was not
    measured.

    >>> from compile_lab.simulator import measured_wire
    >>> rates = [{"kind": "all_reduce", "nbytes": nbytes, "median_us": us} for nbytes, us in ((1000, 20), (3000, 40))]
    >>> [measured_wire(rates, "all_reduce")(nbytes) for nbytes in (1000, 2000, 6000)]
    [0.02, 0.03, 0.08]
    """
    for row in rates:
        if missing := {"kind", "nbytes", "median_us"} - row.keys():
            raise ValueError(f"a row of rates has no {min(missing)}; it has {shown(list(row))}")
    rows = sorted((row["nbytes"], row["median_us"] / 1e3) for row in rates if row["kind"] == kind)
    if not rows:
        raise ValueError(f"no {kind} was measured on this wire")
    sizes, times = zip(*rows, strict=True)
    return lambda nbytes: _on_the_line(nbytes, sizes, times) * max(1.0, nbytes / sizes[-1])


def _on_the_line(at: float, places: Sequence[float], values: Sequence[float]) -> float:
    """The value on the straight line between two neighbouring places; outside of all, that of the nearest."""
    right = bisect_right(places, at)
    if right in (0, len(places)):
        return values[max(0, right - 1)]
    left = right - 1
    slope = (values[right] - values[left]) / (places[right] - places[left])
    return slope * (at - places[left]) + values[left]


@door
def fsdp_order(blocks: int, head: int, prefetch: bool = True, reshard: bool = True) -> list[str]:
    """A step of FSDP2 in the order in which its host issues it, for `step_of`: forward and backward.

    Each block is one matmul in the forward and two in the backward; after the blocks comes a head of `head` matmuls.
    The embedding takes no time. Collectives are numbered: 0 gathers the root, which has embedding and head, then come
    the blocks; with ``reshard`` the gathers of the backward have numbers ``blocks + 1`` higher; the reduce-scatters
    come after them.

    The host is ahead, so the next block is gathered while one computes. In the backward that takes `prefetch`: without
    it, a gather is issued behind the reduce-scatter of the block before, and waits on the wire until that is done.
    Raises ValueError for less than 1 block or 0 matmuls of the head, and for more than `MOST_MATMULS` of either.

    >>> from compile_lab.simulator import fsdp_order
    >>> " ".join(fsdp_order(blocks=2, head=0))
    'AG0 w0 AG1 w1 AG2 MM w2 MM AG3 AG5 w3 w5 AG4 MM MM RS8 w4 MM MM RS7 RS6 w6 w7 w8'
    """
    check_whole("blocks", blocks, 1, MOST_MATMULS)
    check_whole("head", head, 0, MOST_MATMULS)
    again, scatter = (blocks + 1 if reshard else 0), 2 * (blocks + 1)
    order = ["AG0", "w0", "AG1"]
    for block in range(1, blocks + 1):
        order += [f"w{block}", *([f"AG{block + 1}"] if block < blocks else []), "MM"]
    if reshard:
        order += [f"AG{again}", f"AG{again + blocks}"]
    order += ["MM"] * head + ([f"w{again}"] if reshard else []) + ["MM", "MM"] * head
    for block in range(blocks, 0, -1):
        next_gather = [f"AG{again + block - 1}"] if reshard and block > 1 else []
        order += [f"w{again + block}"] if reshard else []
        order += [*(next_gather if prefetch else []), "MM", "MM", f"RS{scatter + block}"]
        order += [] if prefetch else next_gather
    return [*order, f"RS{scatter}", *(f"w{scatter + number}" for number in range(blocks + 1))]
