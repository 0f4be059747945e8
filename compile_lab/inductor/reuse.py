"""Which buffers does Inductor's code take over instead of asking for new ones? ``buffer_reuse(code)`` answers.

The wrapper says it in its own lines: ``buf0 = empty_strided_cpu(…)`` asks the allocator, ``del buf0`` gives back, and
``buf4 = buf1; del buf1  # reuse`` gives the memory of a value that nobody reads any more to the next one.
"""

import re
from dataclasses import dataclass

from ..doors import door
from .generated import GeneratedCode
from .records import InductorGraph
from .wrapper import Allocated, Freed, Launched, Taken, Wrapper, WrapperCall


@dataclass(frozen=True)
class Takeover:
    """One line of the wrapper that gives an old buffer to a new value."""

    line: str
    donated: bool
    """True if the old buffer came in as an argument: in a backward, what the forward saved."""
    in_place: bool
    """True if one kernel reads the old value and writes the new one to the same address, through ``in_out_ptr``."""


@dataclass(frozen=True)
class Reuse:
    """The buffers of one graph: a result either gets a new one, or takes over one that is no longer read."""

    direction: str
    allocated: int
    """Buffers that the wrapper asks for."""
    freed: int
    """Buffers of its own that it gives back, with nobody taking them over."""
    taken: tuple[Takeover, ...]

    @property
    def reused(self) -> int:
        """Results that took over a buffer which this graph had allocated."""
        return sum(not each.donated for each in self.taken)

    @property
    def donated(self) -> int:
        """Results that took over a buffer which the forward had saved."""
        return sum(each.donated for each in self.taken)


@door
def buffer_reuse(code: GeneratedCode) -> tuple[Reuse, ...]:
    """One ``Reuse`` a graph of the generated code, for a CPU or a GPU, real or virtual.

    A buffer that changes its name before anything has been written to it counts as allocated only: so does Inductor
    write a reduction whose two steps are one kernel.

    >>> import torch
    >>> from compile_lab.inductor import buffer_reuse, generated_code
    >>> (reuse,) = buffer_reuse(generated_code(lambda x: x @ x @ x @ x, torch.ones(4, 4)))
    >>> reuse.allocated, reuse.reused, reuse.taken[0].line
    (2, 1, 'buf2 = buf0; del buf0  # reuse')
    """
    return tuple(_of(graph) for graph in code.graphs)


def _of(graph: InductorGraph) -> Reuse:
    wrapper = Wrapper.of(graph.wrapper)
    untouched: set[str] = set()
    allocated = freed = 0
    taken = []
    for statement in wrapper.statements:
        match statement:
            case Allocated(name):
                untouched.add(name)
                allocated += 1
            case Taken(name, old, ends=True) if old in untouched:
                untouched.add(name)
            case Taken(name, old, ends=True, line=line):
                taken.append(Takeover(line, old in wrapper.arguments, _written_in_place(name, wrapper)))
            case Taken(name, old):
                untouched -= {name, old}
            case WrapperCall(arguments=arguments):
                untouched.difference_update(arguments)
            case Freed(name):
                freed += name not in wrapper.arguments
    return Reuse(graph.direction, allocated, freed, tuple(taken))


def _written_in_place(name: str, wrapper: Wrapper) -> bool:
    """True if the first kernel that is given the buffer takes it as one of its ``in_out_ptr``, which come first."""
    call = next((call for call in wrapper.calls if name in call.arguments), None)
    if not isinstance(call, Launched):
        return False
    in_place = set(re.findall(r"in_out_ptr\d+", wrapper.kernels[call.op][1]))
    return call.arguments.index(name) < len(in_place)
