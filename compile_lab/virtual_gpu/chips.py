"""The chips that can be pretended: what the compiler asks a device about, from public data.

Sources. Limits that follow from the compute capability (threads, registers, shared memory): NVIDIA, *CUDA C++
Programming Guide*, table "Technical Specifications per Compute Capability" (7.5, 8.0 and 9.0). Multiprocessors, memory
as sold and L2 cache: NVIDIA's *H200 Tensor Core GPU* data sheet, *H100 Tensor Core GPU Architecture* (SXM5), *A100
Tensor Core GPU Architecture* (SXM4, 80 GB) and *Turing GPU Architecture* with the *T4* data sheet; the H200's L2, which
no data sheet gives, is what its driver answers (recording ``machine``). Memory bandwidth: the same data sheets.
"""

from dataclasses import dataclass

from ..doors import door

KIB, MIB, GB = 1 << 10, 1 << 20, 10**9


@door
@dataclass(frozen=True)
class Chip:
    """A GPU as the compiler sees it. Shared memory in bytes: ``shared_nbytes`` is what a kernel may use without asking,
    ``shared_optin_nbytes`` the most that one may ask for, ``shared_sm_nbytes`` what a multiprocessor has.

    >>> from compile_lab.virtual_gpu import chip
    >>> h200 = chip("H200")
    >>> h200.multiprocessors, h200.warps_per_sm
    (132, 64)
    """

    name: str
    device: str
    """As the driver names it."""
    capability: tuple[int, int]
    multiprocessors: int
    memory_nbytes: int
    l2_nbytes: int
    shared_optin_nbytes: int
    shared_sm_nbytes: int
    threads_per_sm: int
    blocks_per_sm: int
    shared_nbytes: int = 48 * KIB
    threads_per_block: int = 1024
    registers_per_sm: int = 65536
    registers_per_thread: int = 255
    warp_threads: int = 32
    memory_gb_per_s: float = 1000.0
    """What the compiler estimates with, where it weighs a computation against a message; never a measured one."""

    @property
    def one(self) -> str:
        """The name with its article: "an H200", "a T4"."""
        return f"a{'n' * (self.name[0] in 'AEFHILMNORSX')} {self.name}"

    @property
    def warps_per_sm(self) -> int:
        """The warps that a multiprocessor can hold at once."""
        return self.threads_per_sm // self.warp_threads

    def __str__(self) -> str:
        return f"virtual {self.name}"


# fmt: off
_ROWS = (
    # Capability and multiprocessors; memory and L2; shared memory that a block may ask for, and a multiprocessor has;
    # threads and blocks that a multiprocessor holds; GB/s from memory.
    ("H200", "NVIDIA H200",           (9, 0), 132, 141 * GB, 60 * MIB, 227 * KIB, 228 * KIB, 2048, 32, 4800),
    ("H100", "NVIDIA H100 80GB HBM3", (9, 0), 132,  80 * GB, 50 * MIB, 227 * KIB, 228 * KIB, 2048, 32, 3350),
    ("A100", "NVIDIA A100-SXM4-80GB", (8, 0), 108,  80 * GB, 40 * MIB, 163 * KIB, 164 * KIB, 2048, 32, 2039),
    ("T4",   "Tesla T4",              (7, 5),  40,  16 * GB,  4 * MIB,  64 * KIB,  64 * KIB, 1024, 16, 320),
)
# fmt: on
CHIPS = {row[0]: Chip(*row[:-1], memory_gb_per_s=row[-1]) for row in _ROWS}


@door
def chip(name: str | Chip) -> Chip:
    """The chip of that name. ValueError lists the names; a Chip is passed on, so that one of your own will do.

    >>> from compile_lab.virtual_gpu import chip
    >>> print(chip("A100"))
    virtual A100
    >>> chip("H300")
    Traceback (most recent call last):
        ...
    ValueError: no virtual chip is called 'H300'; there is H200, H100, A100, T4
    """
    if isinstance(name, Chip):
        return name
    if name not in CHIPS:
        raise ValueError(f"no virtual chip is called {name!r}; there is {', '.join(CHIPS)}")
    return CHIPS[name]
