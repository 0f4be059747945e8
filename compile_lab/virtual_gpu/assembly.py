"""What becomes of a Triton kernel on a chip that is not here: every stage down to machine code, and what it takes.

``assemble(kernel, "H200", …)`` runs Triton's own compiler, and the ptxas, cuobjdump and nvdisasm of its wheel, in a
child process. Registers, shared memory and spills are exact: they are properties of the code. A time is not, and none
is given.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..doors import door
from . import compiling
from .chips import Chip
from .chips import chip as chip_named
from .client import run
from .errors import VirtualGPUError
from .kernels import HandWritten, hand_written
from .line_maps import Lines, opcodes, ptx_lines, without_locations, without_notes
from .warps import Occupancy, occupancy

STAGES = ("ttir", "ttgir", "llir", "ptx", "sass")


@door
@dataclass(frozen=True)
class Config:
    """A way to lay a kernel out: a value for each ``tl.constexpr`` parameter, warps a block, pipeline stages.

    >>> from compile_lab.virtual_gpu import Config
    >>> print(Config({"XBLOCK": 1024}, num_warps=8))
    XBLOCK=1024, 8 warps
    >>> Config({"XBLOCK": 1024}, num_warps=6)
    Traceback (most recent call last):
        ...
    ValueError: num_warps is 6; a block has 1, 2, 4, 8, 16 or 32 warps
    """

    blocks: Mapping[str, Any]
    num_warps: int = 4
    num_stages: int = 3

    def __post_init__(self) -> None:
        if self.num_warps not in (1, 2, 4, 8, 16, 32):
            raise ValueError(f"num_warps is {self.num_warps!r}; a block has 1, 2, 4, 8, 16 or 32 warps")
        if not isinstance(self.num_stages, int) or self.num_stages < 1:
            raise ValueError(f"num_stages is {self.num_stages!r}; it is a whole number from 1")

    def __str__(self) -> str:
        blocks = [f"{name}={value}" for name, value in self.blocks.items()]
        return ", ".join([*blocks, f"{self.num_warps} warp{'s' * (self.num_warps > 1)}"])


@dataclass(frozen=True)
class Assembly:
    """One kernel, one configuration, one chip: the code of every stage, and what it takes.

    ``source`` is the Triton source; ``ttir`` and ``ttgir`` come without their location notes, ``ptx`` without the debug
    data after the function, ``sass`` without addresses. ``registers`` a thread; ``shared_bytes`` a block; ``spills``:
    bytes of a thread's values that found no register and went to memory. ``lines`` says for each stage but LLVM's
    which lines came from which line of the source: ``assembly.lines["ptx"][7]``. Without the tools of triton's wheel,
    ``sass``, ``registers`` and ``spills`` are None, and ``missing`` says why.
    """

    kernel: str
    chip: Chip
    config: Config
    source: str = field(repr=False)
    ttir: str = field(repr=False)
    ttgir: str = field(repr=False)
    llir: str = field(repr=False)
    ptx: str = field(repr=False)
    sass: str | None = field(repr=False)
    registers: int | None
    shared_bytes: int
    spills: int | None
    lines: Mapping[str, Lines] = field(repr=False)
    missing: str = ""

    @property
    def occupancy(self) -> Occupancy | None:
        """The warps that a multiprocessor holds; None where the registers are not known."""
        if self.registers is None:
            return None
        return occupancy(self.chip, self.registers, self.shared_bytes, self.config.num_warps)

    def code(self, stage: str) -> str | None:
        """The text of one of STAGES. ValueError for another name."""
        if stage not in STAGES:
            raise ValueError(f"there is no stage {stage!r}; there are {', '.join(STAGES)}")
        return getattr(self, stage)

    def count(self, opcode: str) -> int:
        """How often an operation, as ``MUFU.EX2`` or ``LDG``, stands in the machine code; without it, in the PTX."""
        found = opcodes(self.ptx if self.sass is None else self.sass)
        return sum(one == opcode or one.startswith(f"{opcode}.") for one in found)


@door
def assemble(
    kernel: Any, chip: str | Chip, config: Config | None = None, *, arguments: Mapping[str, str | int] | None = None
) -> Assembly:
    """Compile a kernel for a chip, without either a GPU or a launch.

    ``kernel``: an ``inductor.Kernel`` (anything with a Triton ``source`` of Inductor's), or a ``@triton.jit`` function;
    then ``arguments`` says for each parameter that is no ``tl.constexpr`` its type (``"*bf16"``, ``"fp32"``, ``"i64"``;
    pointers are taken to be aligned, as torch's are) or an example ``int``, which is specialised as a launch would.
    ``config``: for a kernel of Inductor's, by default, the first of the configurations that Inductor would try.

    Raises ValueError for an unknown chip or names that do not fit the kernel's, TypeError for what is no kernel,
    VirtualGPUError for what does not compile, for that chip or at all.

    What is no kernel is refused at once:

    >>> from compile_lab.virtual_gpu import assemble
    >>> assemble(len, "H200")
    Traceback (most recent call last):
        ...
    TypeError: this asks for a kernel, an inductor.Kernel or a @triton.jit function, not builtin_function_or_method
    """
    return assemble_all(kernel, chip, None if config is None else [config], arguments=arguments, first=True)[0]


@door
def assemble_all(
    kernel: Any,
    chip: str | Chip,
    configs: Sequence[Config] | None = None,
    *,
    arguments: Mapping[str, str | int] | None = None,
    first: bool = False,
) -> tuple[Assembly, ...]:
    """The same for several configurations; by default for all that Inductor would try for its kernel (or the first).

    A chip that is not known is refused before a child is started:

    >>> from compile_lab.virtual_gpu import assemble_all
    >>> assemble_all(len, "H300")
    Traceback (most recent call last):
        ...
    ValueError: no virtual chip is called 'H300'; there is H200, H100, A100, T4
    """
    where = chip_named(chip)
    name, source, kernel = _kernel(kernel)
    if isinstance(kernel, HandWritten):
        if configs is None:
            raise ValueError(f"{name} is hand-written: nobody but you knows its blocks, so give a Config")
        if arguments is None:
            raise ValueError(f"{name} is hand-written: say in arguments= of which type each parameter is")
    asked = None if configs is None else [(dict(one.blocks), one.num_warps, one.num_stages) for one in configs]
    _check_types(arguments or {})
    outcome, found = run(where, compiling.compiled, kernel, asked, dict(arguments or {}), where, first)
    return tuple(_assembly(name, source, where, one) for one in _done(name, where, outcome, found))


@dataclass(frozen=True)
class Resources:
    """What a kernel takes of a chip: registers a thread, spilled bytes a thread, warps that a multiprocessor holds. All
    None without the tools of triton's wheel."""

    registers: int | None
    spills: int | None
    warps: int | None


@door
def resources(kernels: Sequence[Any], chip: str | Chip) -> tuple[Resources, ...]:
    """What `assemble` says that each of Inductor's kernels takes, all of them asked at once and without any code.

    Raises as `assemble` does, for the first that it raises for.

    >>> from compile_lab.virtual_gpu import resources
    >>> resources([], "H200")
    ()
    """
    where = chip_named(chip)
    named = [_kernel(each)[:2] for each in kernels]
    made = run(where, compiling.resources, [source for _, source in named], where) if named else []
    return tuple(_resources(name, where, *each) for (name, _), each in zip(named, made, strict=True))


def _resources(name: str, chip: Chip, outcome: str, found: Any) -> Resources:
    [taken] = _done(name, chip, outcome, found)
    registers, shared, config = taken["registers"], taken["shared_bytes"], Config(*taken["config"])
    _check_shared(name, chip, config, shared)
    warps = None if registers is None else occupancy(chip, registers, shared, config.num_warps).warps
    return Resources(registers, taken["spills"], warps)


def _done(name: str, chip: Chip, outcome: str, found: Any) -> Any:
    """What was compiled for each layout; what a child says instead, as an error."""
    if outcome == "misfit":
        raise ValueError(found)
    if outcome == "failed":
        raise VirtualGPUError(f"{name} does not compile for the {chip}: {found}")
    return found


def _check_shared(name: str, chip: Chip, config: Config, shared_bytes: int) -> None:
    if shared_bytes > chip.shared_optin_nbytes:
        raise VirtualGPUError(
            f"{name} with {config} takes {shared_bytes:,} bytes of shared memory a block, and the {chip} has "
            f"{chip.shared_optin_nbytes:,}: choose smaller blocks or fewer stages"
        )


def _check_types(arguments: Mapping[str, str | int]) -> None:
    for name, value in arguments.items():
        if isinstance(value, int) or (isinstance(value, str) and re.fullmatch(r"\*?(bf|fp|[iu])\d+\w*", value)):
            continue
        raise ValueError(f"arguments[{name!r}] is {value!r}; give a type of Triton's, as '*bf16' or 'i32', or an int")


def _kernel(kernel: Any) -> tuple[str, str, HandWritten | str]:
    """Name, source, and what travels."""
    source = getattr(kernel, "source", None)
    if not isinstance(source, str):
        made = hand_written(kernel)
        return made.name, made.source, made
    name = re.search(r"@triton\.jit\s+def (\w+)\(", source)
    if not name or "triton_heuristics" not in source:
        language = getattr(kernel, "language", "unknown")
        raise TypeError(f"this kernel is {language} code, and only Inductor's Triton kernels have an assembly here")
    return name[1], source, source


def _assembly(name: str, source: str, chip: Chip, found: dict[str, Any]) -> Assembly:
    lines = {"ptx": ptx_lines(found["ptx"])}
    texts = {}
    for stage in ("ttir", "ttgir"):
        texts[stage], lines[stage] = without_locations(found[stage])
    sass = found["sass"]
    if sass is not None:
        sass, lines["sass"] = without_notes(sass, found["ptx"])
    made = Assembly(
        name,
        chip,
        Config(*found["config"]),
        source,
        **texts,
        llir=found["llir"],
        ptx=found["ptx"],
        sass=sass,
        registers=found["registers"],
        shared_bytes=found["shared_bytes"],
        spills=found["spills"],
        lines=lines,
        missing=found["missing"],
    )
    _check_shared(name, chip, made.config, made.shared_bytes)
    return made
