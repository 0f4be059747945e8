"""From what each rank has called: which rank, which collective, which line, which graph."""

import linecache
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from compile_lab.recordings import RecordedRow
from compile_lab.source import Line

OTHER, ABSENT, BEYOND, NONE = "other", "absent", "beyond", "none"
"""The ranks call different collectives; some never came to one; recorded ones agree, the ranks do not; all agree."""

DIED_OF_IT = (
    "It may have come with another shape: gloo ends a process to which more bytes are sent than it has room for; "
    "`TORCH_DISTRIBUTED_DEBUG=DETAIL` names the shapes of all ranks"
)


@dataclass(frozen=True)
class RankState(RecordedRow):
    """Where one rank is: its last collectives, its line (file, number), what it compiles, whether it ended.

    ``at`` and ``waits_since`` are seconds since the epoch; ``ended`` is "", "ended" or "failed".
    """

    rank: int
    size: int
    at: float
    pid: int
    host: str
    calls: tuple[dict[str, Any], ...]
    groups: Mapping[str, list[int]]
    compiles: tuple[str, str] | None
    place: tuple[str, int] | None
    failure: str
    ended: str
    waits_since: float | None


@dataclass(frozen=True)
class Divergence:
    """Where ranks part. ``kind`` is "other", "absent", "beyond" or "none".

    ``group`` and ``number`` say which collective, counted from 1 in its group. ``ranks`` has a sentence for each rank,
    ``lines`` its line in the program (file, number). ``odd`` are those that are not as most are: empty if no side is
    the larger one, so of two ranks that call different things none is blamed. Who never came is told either way.
    """

    kind: str
    group: str
    number: int
    ranks: Mapping[int, str]
    lines: Mapping[int, tuple[str, int]]
    odd: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.kind == NONE:
            head = "The ranks have called the same collectives. Where they are:"
        elif self.kind == BEYOND:
            head = "The recorded collectives agree; gloo's sends and receives are not recorded. The ranks are:"
        else:
            head = f"The ranks part at collective {self.number} of group {self.group}:"
        odd = f"\n  not as the others: {', '.join(f'rank {rank}' for rank in self.odd)}" if self.odd else ""
        return head + "".join(f"\n  rank {rank} {said}" for rank, said in self.ranks.items()) + odd

    def as_json(self) -> dict[str, Any]:
        """What JSON can hold."""
        return asdict(self) | {"ranks": list(self.ranks.items()), "lines": list(self.lines.items())}


def find_divergence(
    stands: Mapping[int, RankState], gone: Collection[int] = (), silent: Collection[int] = ()
) -> Divergence:
    """Compare, group by group, the collectives of the same number; the first that differs is where the ranks part.

    ``gone`` are ranks whose process is no more, ``silent`` those that did not answer. A collective that all its ranks
    called alike says nothing, however long it takes. Raises ValueError without a rank.
    """
    if not stands:
        raise ValueError("no rank has said where it is")
    size = max(stand.size for stand in stands.values())
    found = [
        differs
        for group, members in _groups(stands, size).items()
        if (differs := _first_difference(group, members, stands)) is not None
    ]
    if not found:
        everyone = range(size)
        waits = any(call["done"] is False for stand in stands.values() for call in stand.calls[-1:])
        said = {rank: _standing(rank, stands, gone, silent) for rank in everyone}
        return Divergence(NONE if waits else BEYOND, "", 0, said, _places(stands, {}))
    group, number, members, calls = min(found, key=lambda each: _when(each, stands))
    said = {}
    odd: tuple[int, ...] = ()
    for rank in members:
        if (call := calls.get(rank)) is not None:
            said[rank] = ("passed " if call["done"] else "waits in ") + _call_text(call)
        else:
            before = _before(stands.get(rank), group, number, rank in gone or rank in silent)
            # What a dead process wrote ends before its death: it may have come, and have died of it.
            came = "is not known to have come" if rank in gone else "never came"
            said[rank] = f"{came}: {before}{_standing(rank, stands, gone, silent)}"
    absent = tuple(rank for rank in members if rank not in calls)
    if not absent:
        votes = Counter(_signature(call) for call in calls.values())
        (most, count), *others = votes.most_common()
        if not others or count > others[0][1]:
            odd = tuple(rank for rank in members if _signature(calls[rank]) != most)
    elif len(absent) * 2 < len(members):
        odd = absent
    return Divergence(ABSENT if absent else OTHER, group, number, said, _places(stands, calls), odd)


def _groups(stands: Mapping[int, RankState], size: int) -> dict[str, list[int]]:
    """Each group's ranks: as they say, or those that called anything in it."""
    members: dict[str, list[int]] = {}
    for stand in stands.values():
        for name, ranks in stand.groups.items():
            members.setdefault(name, list(ranks))
        for call in stand.calls:
            members.setdefault(call["group"], [])
    for name, ranks in members.items():
        callers = {rank for rank, stand in stands.items() if any(call["group"] == name for call in stand.calls)}
        members[name] = sorted({*ranks, *callers} & set(range(size)))
    return members


_Difference = tuple[str, int, list[int], dict[int, dict[str, Any]]]


def _first_difference(group: str, members: list[int], stands: Mapping[int, RankState]) -> _Difference | None:
    by_rank = {
        rank: {call["number"]: call for call in stands[rank].calls if call["group"] == group} if rank in stands else {}
        for rank in members
    }
    for rank, own in by_rank.items():
        if own and stands[rank].failure:  # torch counts a collective that failed as done
            own[max(own)] = own[max(own)] | {"done": False}
    kept = [min(calls) for calls in by_rank.values() if calls]
    numbers = sorted({number for calls in by_rank.values() for number in calls if number >= max(kept)})
    for number in numbers:
        calls = {rank: own[number] for rank, own in by_rank.items() if number in own}
        if len({_signature(call) for call in calls.values()}) > 1:
            return group, number, members, calls
        if len(calls) < len(members) and not all(call["done"] for call in calls.values()):
            return group, number, members, calls
    return None


def _when(found: _Difference, stands: Mapping[int, RankState]) -> tuple[bool, int]:
    """Of several groups, the one in which someone waits comes first."""
    return all(call["done"] for call in found[3].values()), found[1]


def _signature(call: Mapping[str, Any]) -> tuple[Any, ...]:
    """What must agree. Shapes of an all-gather's inputs must, too, over gloo."""
    return call["kind"], str(call["shapes"]), str(call["dtypes"])


def _before(stand: RankState | None, group: str, number: int, old: bool) -> str:
    """A rank's last collective in the group. An ``old`` record ends too early; but those before have ended on all."""
    if old:
        return f"it took part in {number - 1}, the last before; " if number > 1 else ""
    own = [call for call in stand.calls if call["group"] == group and call["number"] < number] if stand else []
    return f"its last was {own[-1]['number']}, {_call_text(own[-1])}; " if own else "it has called none in this group; "


def _call_text(call: Mapping[str, Any]) -> str:
    shapes = ", ".join(
        f"{dtype}[{', '.join(map(str, shape))}]" for dtype, shape in zip(call["dtypes"], call["shapes"], strict=False)
    )
    place = f", {_place(*call['line'])}" if call["line"] else ""
    graph = f", in the compiled graph {call['graph']}" if call["graph"] else ""
    return f"{call['kind']}({shapes}){place}{graph}"


def _standing(rank: int, stands: Mapping[int, RankState], gone: Collection[int], silent: Collection[int]) -> str:
    """Where a rank is, in words, without the collective."""
    stand = stands.get(rank)
    if stand is None:
        return "has written nothing: it was never watched"
    place = f" {_place(*stand.place)}" if stand.place else ""
    if rank in gone:
        return f"its process is gone, last seen at{place}. {DIED_OF_IT}"
    if stand.failure:
        return f"has failed, {stand.failure}, at{place}"
    if stand.ended:
        return "has come to its end"
    if rank in silent:
        return f"does not answer, last seen at{place}"
    if stand.compiles:
        return f"is compiling {stand.compiles[1]} [{stand.compiles[0]}], called at{place}"
    return f"is at{place}"


def _place(file: str, line: int) -> str:
    text = linecache.getline(file, line).strip()
    return f"{Line(file, line)}" + (f": `{text}`" if text else "")


def _places(stands: Mapping[int, RankState], calls: Mapping[int, Mapping[str, Any]]) -> dict[int, tuple[str, int]]:
    found = {}
    for rank, stand in stands.items():
        if rank in calls and calls[rank]["line"]:
            found[rank] = tuple(calls[rank]["line"])
        elif stand.place:
            found[rank] = stand.place
    return found
