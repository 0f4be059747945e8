"""A training step on several devices, moment by moment: who holds which slice, what moves, and how bytes add up.

``stage(shape, pattern, devices)`` plays a `Plan` out. Each moment's moves are those that the plan counts, so at the end
every device has sent what the plan says; what it holds has the plan's sizes, kind by kind. A step without a pipeline
has the same 17 moments under every pattern, so that patterns can be compared moment for moment; a pipeline's 14 spans
of its schedule take their places.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..doors import door
from .collectives import Collective
from .meshes import PLANNED, mesh_of
from .patterns import Plan, layout_of, plan
from .sharding import Shape
from .slices import Part, matrices, part_of, places
from .stage_script import SPANS, Beat, pipelined, straight
from .traffic import Layout


@dataclass(frozen=True)
class Move:
    """Collectives of one kind along one axis in a moment: who takes part, and bytes as in `Collective`.

    Of a send, a group is (from, to).
    """

    kind: str
    axis: str
    what: str
    groups: tuple[tuple[int, ...], ...]
    payload_nbytes: int

    @property
    def sent_nbytes(self) -> int:
        """Bytes that a device of a group sends."""
        return Collective(self.kind, self.axis, len(self.groups[0]), 1, self.payload_nbytes).sent_nbytes


@dataclass(frozen=True)
class Device:
    """One device in a moment. ``held`` is in bytes by kind, ``parts`` are of one of its layers: kind, then matrix."""

    place: Mapping[str, int]
    doing: str
    held: Mapping[str, int]
    sent_nbytes: int
    parts: Mapping[str, Mapping[str, Part]] = field(repr=False)

    @property
    def total_nbytes(self) -> int:
        return sum(self.held.values())


@dataclass(frozen=True)
class Frame:
    """A moment of a step: its name, what happens, each device, and what moves between them."""

    phase: str
    says: str
    devices: tuple[Device, ...]
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class Played:
    """A plan, played out: `frames` are its moments."""

    plan: Plan
    layout: Layout = field(repr=False)
    beats: tuple[tuple[Beat, ...], ...] = field(repr=False)
    """For each pipeline stage, each moment."""

    @cached_property
    def frames(self) -> tuple[Frame, ...]:
        mesh = self.plan.mesh
        sent: list[Counter[tuple[str, str]]] = [Counter() for _ in self.beats]
        where = list(places(mesh))
        parts = [_parts(self.layout, place) for place in where]
        found = []
        for together in zip(*self.beats, strict=True):
            for sums, beat in zip(sent, together, strict=True):
                for kind, axis, _, payload in beat.moves:
                    sums[kind, axis] += payload
            devices = []
            for place, has in zip(where, parts, strict=True):
                beat, sums = together[place.get("pp", 0)], sent[place.get("pp", 0)]
                ways = (Collective(kind, axis, self.layout.size(axis), 0, n) for (kind, axis), n in sums.items())
                nbytes = sum(way.sent_nbytes for way in ways)
                devices.append(Device(place, beat.doing, beat.held, nbytes, _seen(has, beat.has)))
            found.append(Frame(together[0].phase, _says(together), tuple(devices), tuple(_moves(together, where))))
        return tuple(found)


@door
def stage(shape: Shape, pattern: str, devices: int, *, batch: int | None = None, precision: str = "bf16") -> Played:
    """The moments of a step with AdamW of a model under a pattern of `meshes.PLANNED` on so many devices.

    ``batch`` and ``precision`` as in ``plan``. A pipeline takes as many micro-batches as divide its sequences and fill
    14 spans, at least. Raises ValueError as ``plan``.

    >>> from compile_lab.simulator.explored_view import MODELS
    >>> from compile_lab.simulator.stage import stage
    >>> for frame in stage(MODELS["124 M"], "fsdp", 4).frames[1:4]:
    ...     print(frame.phase, [move.what for move in frame.moves])
    Forward: embedding ['embeddings and head']
    Forward, layer 1: gather ["layer 1's parameters"]
    Forward, layer 1: attention ["layer 2's parameters, ahead"]
    """
    if pattern not in PLANNED:
        raise ValueError(f"pattern={pattern!r} has no stage; it is one of {', '.join(map(repr, PLANNED))}")
    mesh = mesh_of(shape, pattern, devices) if pattern else {}
    batch = devices if batch is None else batch
    pieces = _pieces(mesh, batch)
    found = plan(shape, pattern, devices, batch=batch, precision=precision, microbatches=pieces)
    layout = layout_of(shape, pattern, found.mesh, batch, found.length, found.microbatches, precision)
    if found.mesh.get("pp", 1) == 1:
        return Played(found, layout, (tuple(straight(layout, found.stages[0])),))
    beats = (tuple(pipelined(layout, number, share)) for number, share in enumerate(found.stages))
    return Played(found, layout, tuple(beats))


def _pieces(mesh: Mapping[str, int], batch: int) -> int | None:
    """The least number of micro-batches that divides a replica's sequences and gives a span to every moment."""
    pp, rows = mesh.get("pp", 1), batch // (mesh.get("replicate", 1) * mesh.get("shard", 1))
    least = max(pp, SPANS // 2 + 1 - pp)
    return next((n for n in range(least, rows + 1) if rows % n == 0), None) if pp > 1 else None


def _parts(layout: Layout, place: Mapping[str, int]) -> dict[str, dict[str, Part]]:
    """Of each matrix of a layer that this device may have: slices as the pattern cuts them, and gathered ones."""
    known = matrices(layout.shape).items()
    cut = {name: part_of(each, layout.mesh, place) for name, each in known}
    local = {name: part_of(each, layout.mesh, place, sharded=False) for name, each in known}
    held = {kind: cut if kind in layout.slices else local for kind in ("parameters", "gradients", "state")}
    return held | {"local": local}


def _seen(parts: Mapping[str, Mapping[str, Part]], has: frozenset[str]) -> dict[str, Mapping[str, Part]]:
    seen = {"parameters": parts["parameters"], "state": parts["state"]}
    if "gathered" in has:
        seen["gathered"] = parts["local"]
    if "up and down" in has:
        seen["gradients"] = {name: parts["local"][name] for name in ("up", "down")}
    elif "gradients" in has:
        seen["gradients"] = parts["local"]
    elif "slices" in has:
        seen["gradients"] = parts["gradients"]
    return seen


def _says(together: Sequence[Beat]) -> str:
    return " ".join(dict.fromkeys(beat.says for beat in together if beat.says))


def _moves(together: Sequence[Beat], where: Sequence[Mapping[str, int]]) -> Iterator[Move]:
    """The moves of a moment, the same ones of several stages together."""
    found: dict[tuple[str, str, str], list] = {}
    for number, beat in enumerate(together):
        for kind, axis, what, payload in beat.moves:
            groups, most = found.setdefault((kind, axis, what), [[], 0])
            new = _pairs(number, what, where) if kind == "send" else _groups(number, axis, where)
            groups += [group for group in new if group not in groups]
            found[kind, axis, what][1] = max(most, payload)
    for (kind, axis, what), (groups, payload) in found.items():
        yield Move(kind, axis, what, tuple(groups), payload)


def _groups(stage: int, axis: str, where: Sequence[Mapping[str, int]]) -> Iterable[tuple[int, ...]]:
    """The devices of a pipeline stage that differ along the axis alone."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for device, place in enumerate(where):
        if place.get("pp", 0) == stage:
            groups.setdefault(tuple(at for name, at in place.items() if name != axis), []).append(device)
    return [tuple(group) for group in groups.values()]


def _pairs(stage: int, what: str, where: Sequence[Mapping[str, int]]) -> Iterable[tuple[int, ...]]:
    """From each device of a stage to its fellow in the next, or, of gradients, in the one before."""
    stages = max(place["pp"] for place in where) + 1
    each = len(where) // stages
    to = {"activations": stage + 1, "their gradients": stage - 1}.get(what, 0 if stage else stages - 1)
    return [(stage * each + device, to * each + device) for device in range(each)]
