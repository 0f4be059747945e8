"""What bounds a decode step: the bytes it must read, or the products it must compute? Formulas alone, without torch.

A decode step computes one new token for each sequence of a batch. It reads every weight once, whatever the batch, and
each sequence's keys and values; it multiplies every weight once for each sequence. So the weights are shared by the
batch, and the cache is not. Bytes over a measured bandwidth, or operations over a measured rate: the longer of the two
is the least time that a step can take, the roofline (Williams, Waterman, Patterson 2009).
"""

import math
from dataclasses import dataclass

from ..doors import check_amount, check_whole, door


@dataclass(frozen=True)
class DecodeWork:
    """What a decode step of a GPT must move and compute: bytes and floating-point operations.

    ``weights_nbytes`` are read once a step. The rest counts for each sequence: ``cache_nbytes`` of all ``slots`` of its
    static cache, ``weights_flop`` of the products with the weights, ``attention_flop`` of those with the cache.
    Left out, as small or as kept on the chip: activations, logits, the rows of the embeddings, the new key and value.
    """

    weights_nbytes: int
    cache_nbytes: int
    weights_flop: int
    attention_flop: int
    slots: int

    @property
    def sequence_flop(self) -> int:
        """Operations for one sequence."""
        return self.weights_flop + self.attention_flop

    def nbytes(self, batch: int) -> int:
        """Bytes read in a step of so many sequences."""
        return self.weights_nbytes + batch * self.cache_nbytes

    def flop(self, batch: int) -> int:
        """Operations of a step of so many sequences; a multiplication with its addition is two."""
        return batch * self.sequence_flop

    def intensity(self, batch: int) -> float:
        """Operations a byte."""
        return self.flop(batch) / self.nbytes(batch)

    @property
    def most_intensity(self) -> float:
        """Operations a byte of an endless batch, which the weights no longer count in."""
        return self.sequence_flop / self.cache_nbytes


@door
def decode_work(
    layers: int, dim: int, vocabulary: int, slots: int, itemsize: int = 2, tied_head: bool = True
) -> DecodeWork:
    """The work of a GPT's decode step with a static cache of ``slots`` positions, each number ``itemsize`` bytes.

    Weights of a layer: 12 dim² in its products and 13 dim in biases and norms; the head has vocabulary · dim, with a
    bias unless its matrix is the token embedding's. A sequence multiplies each matrix once (2 operations a weight), and
    its query with every key, its shares with every value: 4 · layers · slots · dim. ValueError for a size below 1.
    """
    sizes = {"layers": layers, "dim": dim, "vocabulary": vocabulary, "slots": slots, "itemsize": itemsize}
    for name, value in sizes.items():
        check_whole(name, value)
    matrices = 12 * layers * dim**2 + vocabulary * dim
    small = 13 * layers * dim + 2 * dim + (0 if tied_head else vocabulary)
    return DecodeWork(
        weights_nbytes=(matrices + small) * itemsize,
        cache_nbytes=2 * layers * slots * dim * itemsize,
        weights_flop=2 * matrices,
        attention_flop=4 * layers * slots * dim,
        slots=slots,
    )


@door
def least_ms(work: DecodeWork, batch: int, bytes_per_s: float, flop_per_s: float) -> float:
    """Milliseconds that a step takes at least: the longer of moving its bytes and computing its operations."""
    check_whole("batch", batch)
    _check_rates(bytes_per_s, flop_per_s)
    return 1e3 * max(work.nbytes(batch) / bytes_per_s, work.flop(batch) / flop_per_s)


@door
def turning_batch(work: DecodeWork, bytes_per_s: float, flop_per_s: float) -> int | None:
    """The smallest batch at which computing takes as long as reading; None if reading is longer at any batch.

    It is None where one more sequence's cache takes longer to read than its products take to compute.
    """
    _check_rates(bytes_per_s, flop_per_s)
    gained_s = work.sequence_flop / flop_per_s - work.cache_nbytes / bytes_per_s
    return math.ceil(work.weights_nbytes / bytes_per_s / gained_s) if gained_s > 0 else None


@door
def most_slots(work: DecodeWork, bytes_per_s: float, flop_per_s: float) -> int | None:
    """The longest cache, in slots, with which some batch is bound by arithmetic; None if any cache would do.

    A sequence's slot takes seconds to read and, while it is read, leaves time to compute; the products with the weights
    fill that time up to this many slots.
    """
    _check_rates(bytes_per_s, flop_per_s)
    idle_s = (work.cache_nbytes / bytes_per_s - work.attention_flop / flop_per_s) / work.slots
    return int(work.weights_flop / flop_per_s / idle_s) if idle_s > 0 else None


def _check_rates(bytes_per_s: float, flop_per_s: float) -> None:
    check_amount("bytes_per_s", bytes_per_s)
    check_amount("flop_per_s", flop_per_s)
    if not bytes_per_s or not flop_per_s:
        raise ValueError(f"bytes_per_s is {bytes_per_s}, flop_per_s is {flop_per_s}; both must be above 0")
