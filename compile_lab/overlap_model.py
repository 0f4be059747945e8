"""Overlap on paper: DDP's buckets, or the order of a compiled step, carried out with given times and one wire.

What is assumed: one wire that carries one collective after the other, in the order in which they are started; a
computation that is not slowed down by it; and all ranks alike. So no rank waits for another.
"""

from collections.abc import Sequence
from typing import NamedTuple

from compile_lab.overlap import Collective, Overlap, Span, overlap_of

MB = 2**20
"""As DDP counts: ``bucket_cap_mb`` is in units of 2²⁰ bytes."""


class Gradient(NamedTuple):
    """One parameter's gradient: `ready_ms` after the backward's start, `nbytes` large."""

    ready_ms: float
    nbytes: int


def buckets(nbytes: Sequence[int], cap_nbytes: float, first_nbytes: float | None = None) -> list[list[int]]:
    """Which gradients DDP sends together: positions in `nbytes`, which is in the order in which they are made.

    A bucket is closed once it has `cap_nbytes` or more; so a large gradient can make it much larger than the cap. The
    first one is closed at `first_nbytes`: with DDP's default cap of 25 MB that is 1 MB, with one of your own, the cap.
    Raises ValueError for a cap that is not above 0.
    """
    if min(cap_nbytes, first_nbytes or cap_nbytes) <= 0:
        raise ValueError(f"cap_nbytes={cap_nbytes}, first_nbytes={first_nbytes}: a bucket holds more than 0 bytes")
    found: list[list[int]] = []
    full = True
    for position, size in enumerate(nbytes):
        if full:
            found.append([])
            held = 0
        found[-1].append(position)
        held += size
        full = held >= (first_nbytes or cap_nbytes if len(found) == 1 else cap_nbytes)
    return found


def ddp_overlap(
    gradients: Sequence[Gradient],
    backward_ms: float,
    *,
    cap_nbytes: float,
    bytes_per_ms: float,
    first_nbytes: float | None = None,
    latency_ms: float = 0.0,
    forward_ms: float = 0.0,
    optimizer_ms: float = 0.0,
) -> Overlap:
    """When does DDP send which bucket, and how much of it is exposed?

    `gradients` in the order in which the backward makes them. A bucket starts when its last gradient is ready and the
    wire is free, and takes `latency_ms` plus its bytes over `bytes_per_ms`. The optimizer starts when the backward is
    done and the last bucket is there. Times in the result count from the start of the forward.

    Raises ValueError where there is no gradient, one is ready after the backward's end, or the wire has no speed.
    """
    if not gradients or max(each.ready_ms for each in gradients) > backward_ms:
        raise ValueError(f"give at least one gradient, each ready within the backward's {backward_ms} ms")
    if not bytes_per_ms > 0:
        raise ValueError(f"bytes_per_ms={bytes_per_ms}: a wire carries more than 0 bytes in a millisecond")
    collectives, free = [], 0.0
    for members in buckets([each.nbytes for each in gradients], cap_nbytes, first_nbytes):
        size = sum(gradients[at].nbytes for at in members)
        start = max(free, forward_ms + max(gradients[at].ready_ms for at in members))
        free = start + latency_ms + size / bytes_per_ms
        collectives.append(Collective("all_reduce", start, free, size, 0.0))
    computed = forward_ms + backward_ms
    done = max(computed, free)
    compute = [Span(0, computed), Span(done, done + optimizer_ms)]
    phases = {"forward": Span(0, forward_ms), "gradients": Span(forward_ms, computed)}
    phases |= {"backward": Span(forward_ms, done), "optimizer": Span(done, done + optimizer_ms)}
    return overlap_of(compute, collectives, phases)


COLLECTIVES = {"AG": "all_gather", "RS": "reduce_scatter", "AR": "all_reduce"}
"""How `collective_order` abbreviates the start of a collective; "w3" waits for the collective that "…3" started."""


def carried_out(order: Sequence[str], compute_ms: float, collective_ms: float | Sequence[float]) -> Overlap:
    """A compiled step carried out on paper: `order` is that of `compile_lab.collective_order`.

    Each matrix product ("MM") takes `compute_ms`, other kernels ("k") no time. A collective ("AG0", "RS1", …) starts at
    once if the wire is free, and takes `collective_ms`: a number, or one for each. "w0" waits for collective 0.
    Raises ValueError for a wait whose collective has not been started, and where a collective is not waited for.
    """
    now = free = 0.0
    compute, ends, collectives, waiting = [], {}, [], set()
    for token in order:
        kind, number = token.rstrip("0123456789"), token[len(token.rstrip("0123456789")) :]
        if kind == "MM":
            compute.append(Span(now, now := now + compute_ms))
        elif kind in COLLECTIVES:
            start = max(now, free)
            at = len(collectives)
            free = start + (collective_ms if isinstance(collective_ms, int | float) else collective_ms[at])
            collectives.append(Collective(COLLECTIVES[kind], start, free, None, 0.0))
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
