"""What DTensor does with an operation: is the result right, what is sent, does a refusal help?

`Judge` runs a call on real ranks and compares with one process. A result is right if each rank holds what its label
says: not what ``full_tensor()`` makes of it, which believes the label. Errors without a message are why this is here,
so nothing is called wrong before the rules of `alarms` have been asked.
"""

import contextlib
import faulthandler
import pickle
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DeviceMesh, DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from ..doors import door
from ..simulator.collectives import Collective
from ..tensors import tensors
from . import ranks as gangs
from .alarms import difference, excuse, is_kink, is_outside, is_undefined
from .collectives import Program, counted
from .placements import EMPTY, EVEN, REDUCTIONS, UNEVEN, parts, placement, reduced, sharing, whole

FREE, PAID, REFUSED, WRONG, HANGS, UNCLEAR, UNASKED = "free", "paid", "refused", "wrong", "hangs", "unclear", "unasked"
KINDS = {
    FREE: "right, and nothing is sent",
    PAID: "right, and paid for with collectives",
    REFUSED: "an exception, on every rank alike",
    WRONG: "another result than one process has, and no exception",
    HANGS: "the ranks do not come to an end together, or crash",
    UNCLEAR: "another result, by a rule that says it means nothing",
    UNASKED: "one process refuses it, or the input cannot be split so",
}
TOO_LATE, OTHERS_WAIT = "no end within the time limit", "some ranks raise and the others wait"
_MOST_WORDS = 220


@door
@dataclass(frozen=True)
class Ruling:
    """What came of one call on several ranks.

    ``kind`` is one of `KINDS`. ``what`` is wrong: a ``value``, a ``gradient``, or a ``label``, which says that a rank
    holds something of another shape than it holds. ``detail`` says how, or is the first line of the message; ``helps``
    says what that line names (``operator``, ``way out``). ``sent`` counts the collectives of rank 0, ``out`` are the
    results' placements. ``shards`` are ``even``, or ``uneven`` or ``empty`` in one input at least; ``rule`` excuses.

    >>> from compile_lab.devices import Ruling
    >>> print(Ruling("wrong", what="value", detail="off by 2", shards="uneven"))
    wrong, on uneven shards (value: off by 2)
    """

    kind: str
    what: str = ""
    detail: str = ""
    helps: tuple[str, ...] = ()
    sent: tuple[Collective, ...] = ()
    out: tuple[str, ...] = ()
    shards: str = EVEN
    rule: str = ""

    @property
    def sent_nbytes(self) -> int:
        """Bytes that a rank sends on a ring."""
        return sum(each.sent_nbytes for each in self.sent)

    def __str__(self) -> str:
        how = f", on {self.shards} shards" if self.shards != EVEN else ""
        told = f"{self.what}: {self.detail}" if self.what else self.detail
        said = f"{self.kind}{how}" + (f" ({told})" if told else "")
        return said + (f"; sends {'; '.join(map(str, self.sent))}" if self.sent else "")


@dataclass(frozen=True)
class DTensorCall:
    """A call to be asked about: ``function(*args, **kwargs)``, and a placement for each tensor in it, in order.

    With ``gradient``, the gradients of all floating-point inputs are what is compared.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    layout: tuple[str, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    gradient: bool = False
    operator: str = ""


def check_layout(call: DTensorCall, ranks: int) -> None:
    """Raises ValueError unless each tensor of the call has a placement, and can be split so."""
    held = tensors((call.args, dict(call.kwargs)))
    if len(held) != len(call.layout):
        raise ValueError(
            f"layout has {len(call.layout)} placements for {len(held)} tensors among the arguments; give each its own, "
            "'R' where all ranks hold the whole"
        )
    for x, word in zip(held, call.layout, strict=True):
        parts(x, word, ranks)


def shards_of(call: DTensorCall, ranks: int) -> str:
    """The worst way in which an input's rows are shared out."""
    found = {EVEN}
    for x, word in zip(tensors((call.args, dict(call.kwargs))), call.layout, strict=True):
        if isinstance(kind := placement(word), Shard):
            found.add(sharing(x.shape[kind.dim], ranks))
    return next(each for each in (EMPTY, UNEVEN, EVEN) if each in found)


def helps(message: str, operator: str = "") -> tuple[str, ...]:
    """What a refusal's first line names: the ``operator``, a ``way out``."""
    name = operator.rpartition(".")[2].strip("_")
    names = re.search(r"aten[.:]", message) or (len(name) > 2 and name in message)
    out = re.search(
        r"\b(please|need to convert|redistribute\b|register_\w+|implicit_replication|should use|try )", message, re.I
    )
    return ("operator",) * bool(names) + ("way out",) * bool(out)


def failure_reason(failed: gangs.RankFailed, folder: Path) -> str:
    """Why a group of ranks came to an end, in a line: the time was over, or what brought the rank down."""
    refused = [file.read_text() for file in sorted(folder.glob("refused.*"))]
    refused.sort(key=_is_of_the_wire)  # who raised first is the cause; the others lost it
    late = [file for file in sorted(folder.glob("late.*")) if file.stat().st_size]
    if refused:
        return first_line(f"{OTHERS_WAIT}: {refused[0]}")
    if late:
        deciding = any("_decompositions.py" in file.read_text() for file in late)
        return TOO_LATE + (": still trying placements on the operator's decomposition" if deciding else "")
    return first_line(str(failed).splitlines()[-1] if failed.rank is not None else "no end")


def first_line(message: object) -> str:
    """The first line of a message that says something, cut to a length."""
    lines = [line.strip() for line in str(message).splitlines() if line.strip()]
    return (lines[0] if lines else type(message).__name__)[:_MOST_WORDS]


class Judge:
    """One rank's share of asking: the mesh, a group of its own for what the ranks tell each other, a watchdog.

    A rank that does not come to an end of a call within ``limit_s`` ends itself, whatever it waits for.
    """

    def __init__(self, limit_s: float, folder: str) -> None:
        warnings.simplefilter("ignore")
        self.ranks, self.rank = dist.get_world_size(), dist.get_rank()
        self.mesh = init_device_mesh("cpu", (self.ranks,))
        self._talk = dist.new_group(backend="gloo")  # in case that a call leaves a message behind in the other one
        self._limit_s, self._folder = limit_s, Path(folder)
        self._late = (self._folder / f"late.{self.rank}").open("w")
        # The first call of all loads torch's decompositions, which takes seconds and counts for no case.
        x = distribute_tensor(torch.ones(self.ranks), self.mesh, [Shard(0)], src_data_rank=None)
        torch.nn.functional.mse_loss(x, x)

    def ruling(self, call: DTensorCall) -> Ruling:
        """What came of it: the same on each rank."""
        function = gradients_of(call.function) if call.gradient else call.function
        leaves, tree = tree_flatten((call.args, dict(call.kwargs)))
        places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        try:
            held = [parts(leaves[i].detach(), w, self.ranks) for i, w in zip(places, call.layout, strict=True)]
        except ValueError as error:
            return Ruling(UNASKED, detail=first_line(error))
        inputs = [whole(each, word) for each, word in zip(held, call.layout, strict=True)]

        def alone(values: Sequence[Tensor]) -> Any:
            filled = list(leaves)
            for index, value in zip(places, values, strict=True):
                filled[index] = value
            args, kwargs = tree_unflatten(filled, tree)
            return function(*args, **kwargs)

        try:
            want = alone([x.clone() for x in inputs])
        except Exception as error:
            return Ruling(UNASKED, detail=first_line(error))
        if unsent := _unpicklable(want):
            return Ruling(UNASKED, detail=unsent)
        shards = shards_of(call, self.ranks)
        faulthandler.dump_traceback_later(self._limit_s, exit=True, file=self._late)
        try:
            mine = self._run(alone, held, inputs, call)
            told: list[Any] = [None] * self.ranks
            dist.all_gather_object(told, mine, group=self._talk)
        finally:
            faulthandler.cancel_dump_traceback_later()
        try:
            return self._judged(told, want, call, shards, lambda: self._rule(call, alone, inputs, held, want, told))
        except Exception as error:  # results of a kind that has no difference, such as a nested tensor
            return Ruling(UNASKED, detail=f"the results cannot be compared: {first_line(error)}")

    def _run(self, alone: Callable[..., Any], held: Sequence[Any], inputs: Sequence[Tensor], call: DTensorCall) -> Any:
        """This rank's results, each with its placement, or the message of the exception."""
        (note := self._folder / f"refused.{self.rank}").unlink(missing_ok=True)
        got: list[Any] = []
        try:
            spread = [
                self._distribute(each[self.rank], x, word)
                for each, x, word in zip(held, inputs, call.layout, strict=True)
            ]
            sent = counted(Program(lambda: got.append(alone(spread))), smallest=1)
            return [self._held(each) for each in tree_leaves(got[0])], sent
        except Exception as error:
            message = f"{type(error).__name__}: {first_line(error)}"
            note.write_text(message)  # if the others wait for this rank, that is all that is left of it
            faulthandler.dump_traceback_later(self._limit_s / 3, exit=True, file=self._late)
            return message

    def _distribute(self, mine: Tensor, x: Tensor, word: str) -> DTensor:
        kind = placement(word)
        if isinstance(kind, Partial):
            return DTensor.from_local(mine, self.mesh, [kind], run_check=False)
        return distribute_tensor(x.clone(), self.mesh, [kind], src_data_rank=None)

    def _held(self, value: Any) -> Any:
        """(placement, whole shape, what this rank holds); a placement of torch's own kind is resolved by torch."""
        if not isinstance(value, DTensor):
            return "", None, value.detach() if isinstance(value, Tensor) else value
        (kind,) = value.placements
        if type(kind) in (Replicate, Shard) or (type(kind) is Partial and kind.reduce_op in REDUCTIONS):
            return str(kind), value.shape, value.to_local().detach()
        return str(kind), value.shape, value.full_tensor().detach()

    def _judged(
        self, replies: Sequence[Any], want: Any, call: DTensorCall, shards: str, rule: Callable[[], str]
    ) -> Ruling:
        if raised := [each for each in replies if isinstance(each, str)]:
            some = len(raised) < len(replies)
            kind = HANGS if some or _is_of_the_wire(raised[0]) else REFUSED
            detail = f"only some ranks raise: {raised[0]}" if some else raised[0]
            return Ruling(kind, detail=detail, helps=helps(raised[0], call.operator), shards=shards)
        results = [results for results, _ in replies]
        out = tuple(place or "one process's" for place, _, _ in results[0])
        what, detail = wrong_in([list(each) for each in zip(*results, strict=True)], tree_leaves(want))
        sent = replies[0][1]
        if not detail:
            return Ruling(PAID if sent else FREE, sent=sent, out=out, shards=shards)
        if name := rule():
            return Ruling(UNCLEAR, what, detail, sent=sent, out=out, shards=shards, rule=name)
        what = "gradient" if call.gradient and what == "value" else what
        return Ruling(WRONG, what, detail, sent=sent, out=out, shards=shards)

    def _rule(
        self,
        call: DTensorCall,
        alone: Any,
        inputs: Sequence[Tensor],
        held: Sequence[Any],
        want: Any,
        replies: Sequence[Any],
    ) -> str:
        with contextlib.suppress(Exception):
            if any(word.startswith("P(") for word in call.layout) and is_outside(alone, inputs, held):
                return "domain"
            if call.gradient:
                return "undefined" if is_undefined(alone, inputs) else "kink" if is_kink(alone, inputs) else ""
            columns = [list(each) for each in zip(*(results for results, _ in replies), strict=True)]
            for column, value in zip(columns, tree_leaves(want), strict=False):
                if isinstance(value, Tensor) and wrong_in([column], [value])[1]:
                    return excuse(alone, inputs, value, call.operator, held)
        return ""


def wrong_in(columns: Sequence[Sequence[Any]], want: Sequence[Any]) -> tuple[str, str]:
    """(``value`` or ``label``, how) of the first result that is wrong; ("", "") if none is.

    A column has, for each rank, the result's placement, its whole shape and what the rank holds.
    """
    if len(columns) != len(want):
        return "value", f"{len(columns)} results for {len(want)}"
    for column, value in zip(columns, want, strict=True):
        place, shape = column[0][:2]
        held = [each[2] for each in column]
        if not isinstance(value, Tensor) or not place:
            said = next((told for each in held if (told := difference(each, value))), "")
        elif tuple(shape) != tuple(value.shape):
            said = f"shape {tuple(shape)} for {tuple(value.shape)}"
        elif any(each[0] != place for each in column):
            return "label", f"ranks disagree: {', '.join(each[0] for each in column)}"
        else:
            what, said = _wrong_part(place, held, value.detach())
            if said:
                return what, said
        if said:
            return "value", said
    return "", ""


def _wrong_part(place: str, held: Sequence[Tensor], value: Tensor) -> tuple[str, str]:
    """Does each rank hold what the label says, of the value that one process has?"""
    if place.startswith("P(") and place[2:-1] in REDUCTIONS:
        if any(each.shape != value.shape for each in held):
            return "label", f"{place} of {tuple(value.shape)}, and ranks hold {_shapes(held)}"
        return "value", difference(reduced(held, place[2:-1]), value)
    due = parts(value, place, len(held)) if place.startswith("S(") else (value,) * len(held)
    if any(mine.shape != part.shape for mine, part in zip(held, due, strict=True)):
        return "label", f"{place} of {tuple(value.shape)}, and ranks hold {_shapes(held)}"
    return "value", next((said for mine, part in zip(held, due, strict=True) if (said := difference(mine, part))), "")


def _shapes(held: Sequence[Tensor]) -> str:
    return " and ".join(dict.fromkeys(str(tuple(each.shape)) for each in held))


def gradients_of(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """The gradients of all floating-point tensors that the function is given.

    An output of a single number is taken as a loss is, by ``backward()`` alone; a larger one is weighed from ½ to 1½,
    with weights that are replicated. Raises ValueError where no output has a gradient.
    """

    def gradients(*args: Any, **kwargs: Any) -> list[Any]:
        leaves, tree = tree_flatten((args, kwargs))
        leaves = [_with_grad(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        asked = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.requires_grad]
        args, kwargs = tree_unflatten(leaves, tree)
        made = [each for each in tensors(function(*args, **kwargs)) if each.requires_grad]
        if not made or not asked:
            raise ValueError("no output has a gradient")
        return list(torch.autograd.grad(made, asked, [_weights(each) for each in made], allow_unused=True))

    return gradients


def _with_grad(x: Tensor) -> Tensor:
    return x.detach().requires_grad_(x.is_floating_point() or x.is_complex())


def _weights(made: Tensor) -> Tensor | None:
    if made.numel() == 1 and not made.is_complex():
        return None
    plain = torch.linspace(0.5, 1.5, made.numel(), dtype=torch.float64).reshape(made.shape).to(made.dtype)
    if not isinstance(made, DTensor):
        return plain
    return distribute_tensor(plain, made.device_mesh, [Replicate()] * made.device_mesh.ndim, src_data_rank=None)


def _unpicklable(value: Any) -> str:
    """Why one rank cannot tell another of such a result; "" if it can. 16-bit complex numbers cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(tree_leaves(value)))
    except Exception as error:
        return f"the results cannot be compared: {first_line(error)}"
    return ""


def _is_of_the_wire(message: str) -> bool:
    return "gloo" in message or any(lost in message for lost in gangs.LOST)


__all__ = ["KINDS", "DTensorCall", "DeviceMesh", "Judge", "Ruling"]
