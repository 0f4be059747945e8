"""What the reader has compiled: parts of the model, or functions that it calls, each by itself.

The other cards are of the model compiled as a whole. Here it is called as it was handed over, and torch says what it
compiles on the way.
"""

import contextlib
import re
from dataclasses import dataclass
from functools import partial

from torch import nn

from .._torch.dispatcher import dispatch_mode_is_active
from .._torch.dynamo import compiled_anew, leaves_eager
from ..capture import Event, Log, Measured, Recompiled, compilation
from ..dynamo.guards import in_words
from ..dynamo.tracing import quiet
from ..eager.saved import eager_saved
from .given import GivenModel
from .whole_step import all_kept

LIMIT = re.compile(r"recompile limit exceeded.*?exceeding the (\w+)", re.DOTALL)
"""How torch says that it compiles a function no more, and by which setting."""


@dataclass(frozen=True)
class CompiledPart:
    """A function that torch compiles when the model is called: where it stands, how often, and why it did so again.

    ``limit`` is the setting that kept torch from compiling it once more, such as "recompile_limit"; "" if none did.
    """

    function: str
    place: str
    compilations: int
    failed: tuple[str, ...]
    limit: str = ""


@dataclass(frozen=True)
class HandedOver:
    """The step as it was handed over. ``marked`` are its modules that are compiled by themselves, by their paths.

    ``entered`` counts the compiled graphs that ran in the forward, ``kept_nbytes`` what it leaves to the backward,
    where that can be asked.
    """

    marked: tuple[str, ...]
    left_eager: tuple[str, ...]
    """Those of ``marked`` that torch's own ``module.compile()`` leaves eager, by their paths."""
    parts: tuple[CompiledPart, ...]
    entered: int
    kept_nbytes: int | None

    @property
    def at_limit(self) -> tuple[CompiledPart, ...]:
        """The functions of which torch compiles no more; other calls of them run eagerly."""
        return tuple(each for each in self.parts if each.limit)


def handed_over(given: GivenModel) -> HandedOver | None:
    """Call model or step as the reader does. None where nothing in it is compiled by itself: a model that is compiled
    as a whole takes its parts in. None, too, where values are fake."""
    whole = not given.step and (given.was_compiled or _compiled(given.model))
    if whole or dispatch_mode_is_active():
        return None
    marked = {path: each for path, each in given.model.named_modules() if path and _compiled(each)}
    left_eager = tuple(path for path, each in marked.items() if not hasattr(each, "_orig_mod") and leaves_eager(each))
    run = given.step.run if given.step else partial(given.loss, *given.args, **given.kwargs)
    kept = None
    with compiled_anew(), quiet(), all_kept(given.step) if given.step else contextlib.nullcontext():
        with compilation(use_caches=True) as log:
            run()
        if not log.of(Measured) and not marked:
            return None
        if not given.step:
            with contextlib.suppress(RuntimeError):  # a forward that takes gradients lets nobody look
                kept = sum(each.extra_nbytes for each in eager_saved(given.loss, *given.args, **given.kwargs))
    return HandedOver(tuple(marked), left_eager, _parts(log), log.graph_calls, kept)


def _parts(log: Log) -> tuple[CompiledPart, ...]:
    """What was compiled, frame by frame; a frame's compilations are ``number/0``, ``number/1``, …"""
    frames: dict[str, list[Measured]] = {}
    for each in log.of(Measured):
        frames.setdefault(_number(each), []).append(each)
    parts = []
    for number, all_of_it in frames.items():
        done = [each for each in all_of_it if each.failure is None]
        if not done:
            continue
        again = [each for each in log.of(Recompiled) if _number(each) == number]
        failed = tuple(dict.fromkeys(in_words(each.failed[0].partition(": ")[2]) for each in again if each.failed))
        hit = (LIMIT.search(each.failure or "") for each in all_of_it)
        limit = next((each[1] for each in hit if each), "")
        parts.append(CompiledPart(done[0].function, str(done[0].line or ""), len(done), failed, limit))
    return tuple(parts)


def _number(event: Event) -> str:
    return event.frame.partition("/")[0]


def _compiled(module: nn.Module) -> bool:
    """True of one that ``torch.compile`` wrapped, and of one that ``module.compile()`` changed in its place."""
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
