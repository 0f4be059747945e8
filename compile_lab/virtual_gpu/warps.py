"""How many warps of a kernel can a multiprocessor hold at once? From what the kernel needs and what the chip has.

The rules are those of NVIDIA's occupancy calculator (``cuda_occupancy.h``, and *CUDA C++ Programming Guide*, appendix
"Compute Capabilities", for the sizes): registers are handed out to whole warps in portions of 256 and lie in four
equal parts; from compute capability 8.0 on each block takes one KiB of shared memory for the system.
"""

from dataclasses import dataclass

from ..doors import check_whole, door
from .chips import KIB, Chip

PARTS = 4
REGISTER_PORTION = 256


@dataclass(frozen=True)
class Occupancy:
    """``blocks`` and ``warps`` that a multiprocessor holds, of ``most_warps``; ``limited_by`` names what runs out."""

    blocks: int
    warps: int
    most_warps: int
    limited_by: str

    @property
    def fraction(self) -> float:
        """Held warps by the warps that there is room for, 0 to 1."""
        return self.warps / self.most_warps

    def __str__(self) -> str:
        return f"{self.warps} of {self.most_warps} warps ({self.limited_by})"


@door
def occupancy(chip: Chip, registers: int, shared_bytes: int, num_warps: int) -> Occupancy:
    """For a kernel of ``registers`` a thread, ``shared_bytes`` and ``num_warps`` a block.

    Raises ValueError for a kernel that the chip cannot run at all, with the limit that it breaks.

    >>> from compile_lab.virtual_gpu import chip, occupancy
    >>> for registers in (32, 128):
    ...     print(occupancy(chip("H200"), registers, shared_bytes=0, num_warps=8))
    64 of 64 warps (warps)
    16 of 64 warps (registers)
    """
    check_whole("registers", registers, 0)
    check_whole("shared_bytes", shared_bytes, 0)
    check_whole("num_warps", num_warps, 1)
    limits = {
        "warps": chip.warps_per_sm // num_warps,
        "blocks": chip.blocks_per_sm,
        "registers": _by_registers(chip, registers) // num_warps,
        "shared memory": chip.shared_sm_nbytes // _shared_taken(chip, shared_bytes),
    }
    if registers > chip.registers_per_thread:
        raise ValueError(f"{registers} registers a thread; the {chip.name} has {chip.registers_per_thread}")
    if shared_bytes > chip.shared_optin_nbytes:
        raise ValueError(f"{shared_bytes:,} bytes of shared memory; a block has {chip.shared_optin_nbytes:,}")
    limited_by = min(limits, key=lambda name: limits[name])
    blocks = limits[limited_by]
    if not blocks:
        raise ValueError(f"not one block of {num_warps} warps fits on the {chip.name}: too few {limited_by}")
    return Occupancy(blocks, blocks * num_warps, chip.warps_per_sm, limited_by)


def _by_registers(chip: Chip, registers: int) -> int:
    """Warps that there are registers for; a warp's registers lie in one of the four parts."""
    portion = _up(max(1, registers) * chip.warp_threads, REGISTER_PORTION)
    return PARTS * (chip.registers_per_sm // PARTS // portion)


def _shared_taken(chip: Chip, shared_bytes: int) -> int:
    """What a block takes in fact: rounded up, and with the system's own share."""
    recent = chip.capability >= (8, 0)
    return max(1, _up(shared_bytes + (KIB if recent else 0), 128 if recent else 256))


def _up(value: int, portion: int) -> int:
    return -(-value // portion) * portion
