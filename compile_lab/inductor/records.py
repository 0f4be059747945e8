"""What is kept of one graph that Inductor compiled: kernels, groups, boundaries, buffers."""

import re
from dataclasses import dataclass, field

from ..source import Line

EXTERN = "extern"
"""The language of a kernel that Inductor did not write: a call of cuBLAS, cuDNN, MKL or torch's own."""


@dataclass(frozen=True)
class Origin:
    """A node of the post-grad graph, and the user's lines that asked for it, outermost first.

    A backward node has the lines of the forward operation that it differentiates.
    """

    node: str
    op: str
    stack: tuple[Line, ...] = ()
    is_view: bool = False
    """True if it computes nothing: it shows its input in another shape, or is an item of a tuple."""

    @property
    def line(self) -> Line | None:
        """The innermost of the user's lines; None for a node that torch added on its own account."""
        return self.stack[-1] if self.stack else None

    def __str__(self) -> str:
        return f"{self.node} = {self.op}" + (f"  # {self.line}: {self.line.text}" if self.line else "")


@dataclass(frozen=True)
class Kernel:
    """One launch: the code that runs, and the nodes and lines that it computes.

    ``language`` is "triton", "cpp" or "extern" (a library's); of an extern kernel the source is its call.
    ``nbytes`` is what Inductor expects it to read and write in main memory, each buffer once. A kernel that is
    launched twice is listed twice, with the same name and source.
    """

    name: str
    source: str = field(repr=False)
    language: str
    direction: str
    origins: tuple[Origin, ...] = field(repr=False)
    nbytes: int
    call: str = field(default="", repr=False)
    """The line of the wrapper that launches it."""
    node_by_line: tuple[str, ...] = field(default=(), repr=False)
    """For each line of ``body`` the origin that it computes, or ""; empty where it cannot be known (C++)."""
    parts: tuple[str, ...] = field(default=(), repr=False)
    """The entries of the schedule before fusion that it is made of: names of ``Group``."""

    @property
    def lines(self) -> tuple[Line, ...]:
        """The user's lines that it computes, without repetition, in the order of the nodes."""
        return tuple(dict.fromkeys(origin.line for origin in self.computed if origin.line))

    @property
    def body(self) -> str:
        """The source without its header: imports, launch hints, sizes recorded for Triton's autotuner."""
        at = self.source.find("@triton.jit")
        if at < 0:
            at = self.source.find('extern "C"')
        return self.source[max(at, 0) :].strip()

    @property
    def computed(self) -> tuple[Origin, ...]:
        """The origins that the code computes. Inductor's own list also names what led to the inputs, and views."""
        if self.language == EXTERN:
            return self.origins
        computing = [origin for origin in self.origins if not origin.is_view]
        # Of a template's lines, those of the matmul are nobody's: Inductor did not write them.
        by_line = any(self.node_by_line) and not self.name.startswith("triton_tem_")
        return tuple(origin for origin in computing if not by_line or origin.node in self.node_by_line)

    def computing(self, line: Line) -> tuple[int, ...]:
        """The lines of ``body``, from 1, that compute what the user's ``line`` asked for."""
        wanted = {origin.node for origin in self.origins if origin.line and origin.line.is_same_place(line)}
        return tuple(at for at, node in enumerate(self.node_by_line, 1) if node in wanted)

    def __str__(self) -> str:
        return f"{self.direction} {self.language} {self.name}: {len(self.origins)} nodes, {self.nbytes:,} bytes"


@dataclass(frozen=True)
class Group:
    """One entry of Inductor's schedule: before fusion one loop nest or call, after fusion what becomes one kernel.

    ``kind``: pointwise, reduction, template (a matmul that Inductor writes itself), extern, or nop (no code).
    ``space`` is what it loops over, as (results, elements reduced into each); empty for a call. ``reads`` and
    ``writes`` name buffers; ``nbytes`` counts each of them once, and leaves out what never leaves the group.
    """

    name: str
    kind: str
    parts: tuple[str, ...]
    nodes: tuple[str, ...]
    space: tuple[int | str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    nbytes: int
    """What it would read and write as a kernel of its own."""


@dataclass(frozen=True)
class Refusal:
    """Two groups that Inductor thought of fusing and did not, each by the name of its nodes."""

    first: str
    second: str
    reason: str
    """In Inductor's own words."""


@dataclass(frozen=True)
class Boundary:
    """A buffer that one kernel writes and another reads: where fusion stopped, and why."""

    first: Group
    second: Group
    reason: str


@dataclass(frozen=True)
class Buffer:
    """A tensor of a graph that Inductor lowered, by the name that its wrapper uses: an input, or what a node makes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    """Bytes from its first element to its last: what is requested if it gets memory of its own."""
    strides: tuple[int, ...] = ()
    of: str = ""
    """The tuple that it is a member of, which a call of torch's own gave back: used or not."""


@dataclass(frozen=True)
class InductorGraph:
    """One graph that Inductor lowered: ``direction`` is inference, forward or backward.

    ``nodes`` are the calls of the post-grad graph, in order; ``before`` and ``after`` the schedule around fusion.
    """

    direction: str
    nodes: tuple[Origin, ...] = field(repr=False)
    kernels: tuple[Kernel, ...]
    before: tuple[Group, ...] = field(repr=False)
    after: tuple[Group, ...] = field(repr=False)
    refusals: tuple[Refusal, ...] = field(repr=False)
    wrapper: str = field(repr=False)
    code: str = field(repr=False)
    """The post-grad graph as readable Python."""
    buffers: tuple[Buffer, ...] = field(repr=False)

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """Each pair of groups of which the second reads what the first writes, and Inductor's reason if it gave one."""
        groups = [group for group in self.after if group.kind != "nop"]
        pairs = [(a, b) for a in groups for b in groups if a is not b and set(a.writes) & set(b.reads)]
        return tuple(Boundary(first, second, self._why(first, second)) for first, second in pairs)

    def _why(self, first: Group, second: Group) -> str:
        # A call that was made while lowering, as of complex numbers, comes from no node of the graph.
        library = [(group.nodes or group.parts)[-1] for group in (first, second) if group.kind == EXTERN]
        if library:
            return f"{' and '.join(library)}: a library's code, not Inductor's to change"
        for refusal in reversed(self.refusals):  # the last word was about the largest groups
            first_parts, second_parts = set(refusal.first.split("_")), set(refusal.second.split("_"))
            for groups in ((first, second), (second, first)):
                if first_parts <= set(groups[0].parts) and second_parts <= set(groups[1].parts):
                    return refusal.reason
        return "Inductor gave no reason"

    @property
    def unfused_nbytes(self) -> int:
        """Bytes that the groups would read and write if each were a kernel of its own."""
        return sum(group.nbytes for group in self.before)

    @property
    def fused_nbytes(self) -> int:
        """Bytes that the groups read and write after fusion."""
        return sum(group.nbytes for group in self.after)


_NAMES_THE_MACHINE = re.compile(r"'backend_hash': '[0-9A-F]*', ")


def comparable(source: str) -> str:
    """A kernel's source without what names the machine."""
    return _NAMES_THE_MACHINE.sub("", source)
