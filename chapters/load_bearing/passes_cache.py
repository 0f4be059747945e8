"""What does Inductor's cache make of a pass's key? ``asked_again(fn, args, passes)`` compiles with one after another.

A pass whose key is known is not run: the code that is kept under it is taken. That saves time where the pass is the
same, and gives the code of the old one where the pass was changed and its key was not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab._torch.inductor import inductor_modes
from compile_lab.doors import door

from .passes import GraphChanger, keyed_pass, stage_option
from .passes_key import name_of


@dataclass(frozen=True)
class PassAsked:
    """One compilation with a pass: its name, its key, and how many graphs it was given; 0 where the cache answered."""

    name: str
    key: str
    graphs: int
    result: torch.Tensor

    @property
    def from_cache(self) -> bool:
        """True if code was taken that was compiled under this key before."""
        return not self.graphs

    def __str__(self) -> str:
        graphs = f"{self.graphs} graph{'s' * (self.graphs > 1)}"
        said = "was not run: the cache answered" if self.from_cache else f"was run over {graphs}"
        return f"{self.name}, key {self.key[:8]}…, {said}"


@door
def asked_again(
    fn: Callable[..., torch.Tensor],
    args: Sequence[Any],
    passes: Sequence[tuple[GraphChanger, str | None]],
    stage: str = "post_grad_pre",
) -> tuple[PassAsked, ...]:
    """Compile ``fn(*args)``, whose result is one tensor, with each pass in turn, from a cache that is empty at first.

    Each is a pass and its key; None stands for ``source_key`` of the pass. Between two, everything but the cache is
    forgotten. Raises ValueError for a stage that is none, PassError for a pass without a key.
    """
    option, modes = stage_option(stage), inductor_modes()
    found = []
    with modes.fresh_cache():
        for own, key in passes:
            given: list[fx.Graph] = []
            keyed = keyed_pass(own, key, run=lambda graph, own=own, given=given: (given.append(graph), own(graph)))
            reset_dynamo()
            modes.clear_caches()
            with torch.no_grad():
                result = torch.compile(fn, options={option: keyed, "fx_graph_cache": True}, dynamic=False)(*args)
            found.append(PassAsked(name_of(own), keyed.key, len(given), result))
    reset_dynamo()
    return tuple(found)
