"""What bounds a decode step: the bytes it must read, or the matmuls it must compute? Formulas alone, without torch.

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

    ``weights_nbytes`` are read once a step. The rest counts for each sequence: ``cache_nbytes`` of the ``slots`` that
    it reads of its cache, ``weights_flop`` of the matmuls with weights, ``attention_flop`` of those with the cache.
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

    @property
    def most_intensity(self) -> float:
        """Operations a byte of an endless batch, which the weights no longer count in."""
        return self.sequence_flop / self.cache_nbytes


@door
def decode_work(
    layers: int, dim: int, vocabulary: int, slots: int, itemsize: int = 2, tied_head: bool = True
) -> DecodeWork:
    """The work of a GPT's decode step that reads ``slots`` positions of its cache, each number ``itemsize`` bytes.

    A step needs the slots that are used; one that masks a static cache reads all that there are.
    Weights of a layer: 12 dim² in its matmuls and 13 dim in biases and norms; the head has vocabulary · dim, with a
    bias unless its matrix is the token embedding's. A sequence multiplies each matrix once (2 operations a weight), and
    its query with every key, its shares with every value: 4 · layers · slots · dim. ValueError for a size below 1.

    >>> from compile_lab.simulator.serving import decode_work
    >>> gpt2 = decode_work(layers=12, dim=768, vocabulary=50257, slots=1024)
    >>> gpt2.weights_nbytes, gpt2.cache_nbytes
    (247306752, 37748736)
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
    """Milliseconds that a step takes at least: the longer of moving its bytes and computing its operations.

    >>> from compile_lab.simulator.serving import least_ms, sized_work
    >>> model = sized_work(8, context=4096, weight_nbytes=2)
    >>> [round(least_ms(model, batch, bytes_per_s=3.35e12, flop_per_s=989e12), 1) for batch in (1, 8, 64)]
    [5.5, 10.7, 51.9]
    """
    check_whole("batch", batch)
    _check_rates(bytes_per_s, flop_per_s)
    return 1e3 * max(work.nbytes(batch) / bytes_per_s, work.flop(batch) / flop_per_s)


@door
def turning_batch(work: DecodeWork, bytes_per_s: float, flop_per_s: float) -> int | None:
    """The smallest batch at which computing takes as long as reading; None if reading is longer at any batch.

    It is None where one more sequence's cache takes longer to read than its matmuls take to compute.

    >>> from compile_lab.simulator.serving import sized_work, turning_batch
    >>> models = [sized_work(8, context, weight_nbytes=2) for context in (16, 4096)]
    >>> [turning_batch(model, bytes_per_s=3.35e12, flop_per_s=989e12) for model in models]
    [359, None]
    """
    _check_rates(bytes_per_s, flop_per_s)
    gained_s = work.sequence_flop / flop_per_s - work.cache_nbytes / bytes_per_s
    return math.ceil(work.weights_nbytes / bytes_per_s / gained_s) if gained_s > 0 else None


@door
def most_slots(work: DecodeWork, bytes_per_s: float, flop_per_s: float) -> int | None:
    """The longest cache, in slots, with which some batch is bound by arithmetic; None if any cache would do.

    A sequence's slot takes seconds to read and, while it is read, leaves time to compute; the matmuls with the weights
    fill that time up to this many slots.

    >>> from compile_lab.simulator.serving import most_slots, sized_work
    >>> model = sized_work(8, context=4096, weight_nbytes=2)
    >>> most_slots(model, bytes_per_s=3.35e12, flop_per_s=989e12)
    90
    """
    _check_rates(bytes_per_s, flop_per_s)
    idle_s = (work.cache_nbytes / bytes_per_s - work.attention_flop / flop_per_s) / work.slots
    return int(work.weights_flop / flop_per_s / idle_s) if idle_s > 0 else None


def _check_rates(bytes_per_s: float, flop_per_s: float) -> None:
    check_amount("bytes_per_s", bytes_per_s)
    check_amount("flop_per_s", flop_per_s)
    if not bytes_per_s or not flop_per_s:
        raise ValueError(f"bytes_per_s is {bytes_per_s}, flop_per_s is {flop_per_s}; both must be above 0")


@dataclass(frozen=True)
class Capacity:
    """What one machine does with one model: a decode step of ``batch`` sequences at its two limits, and its memory.

    ``most_sequences``: how many caches fit beside the weights; ``reading_ms`` and ``computing_ms`` are for a step.
    """

    work: DecodeWork
    batch: int
    reading_ms: float
    computing_ms: float
    most_sequences: int

    @property
    def step_ms(self) -> float:
        """The longer of the two limits: no step is faster."""
        return max(self.reading_ms, self.computing_ms)

    @property
    def tokens_per_s(self) -> float:
        """New tokens a second of all sequences together, at most."""
        return 1e3 * self.batch / self.step_ms

    @property
    def fits(self) -> bool:
        """Whether weights and all caches are in memory together."""
        return self.batch <= self.most_sequences

    @property
    def limit(self) -> str:
        """What binds: "memory size" where it does not fit, else the longer of "reading" and "arithmetic"."""
        if not self.fits:
            return "memory size"
        return "reading" if self.reading_ms >= self.computing_ms else "arithmetic"


@door
def capacity(work: DecodeWork, batch: int, memory_nbytes: float, bytes_per_s: float, flop_per_s: float) -> Capacity:
    """A step's limits, and how many sequences fit: the rest of the memory after the weights, over one cache.

    ValueError for a batch below 1, a rate of 0, or a negative memory.

    >>> from compile_lab.simulator.serving import capacity, sized_work
    >>> model = sized_work(8, context=4096, weight_nbytes=2, heads_a_key=4)
    >>> h100 = capacity(model, batch=64, memory_nbytes=80e9, bytes_per_s=3.35e12, flop_per_s=989e12)
    >>> h100.limit, h100.most_sequences, round(h100.tokens_per_s)
    ('reading', 103, 3865)
    """
    check_whole("batch", batch)
    check_amount("memory_nbytes", memory_nbytes)
    _check_rates(bytes_per_s, flop_per_s)
    return Capacity(
        work,
        batch,
        1e3 * work.nbytes(batch) / bytes_per_s,
        1e3 * work.flop(batch) / flop_per_s,
        max(0, int((memory_nbytes - work.weights_nbytes) // work.cache_nbytes)),
    )


@door
def sized_work(billions: float, context: int, weight_nbytes: float, heads_a_key: int = 1) -> DecodeWork:
    """The work of a GPT of so many 1e9 weights whose shape is the usual one: ``dim = 128 · layers``, nothing else.

    The weights are 12 · layers · dim²; a cached key or value has ``dim / heads_a_key`` numbers of two
    bytes a layer, for ``context`` tokens in the cache. Each weight takes ``weight_nbytes`` (0.5 for 4 bits). With
    grouped-query attention (Ainslie and others, 2023) so many heads of queries share a key and a value.

    >>> from compile_lab.simulator.serving import sized_work
    >>> models = [sized_work(8, context=4096, weight_nbytes=2, heads_a_key=heads) for heads in (1, 4)]
    >>> [f"{model.cache_nbytes / 1e9:.2f} GB of cache a sequence" for model in models]
    ['2.47 GB of cache a sequence', '0.62 GB of cache a sequence']
    """
    for name, value in {"billions": billions, "weight_nbytes": weight_nbytes}.items():
        check_amount(name, value)
        if not value:
            raise ValueError(f"{name} is 0; it must be above 0")
    check_whole("context", context)
    check_whole("heads_a_key", heads_a_key)
    weights = billions * 1e9
    layers = max(1, round((weights / 12 / 128**2) ** (1 / 3)))
    dim = max(1, round(math.sqrt(weights / 12 / layers)))
    return DecodeWork(
        weights_nbytes=round(weights * weight_nbytes),
        cache_nbytes=round(2 * layers * context * dim * 2 / heads_a_key),
        weights_flop=round(2 * weights),
        attention_flop=4 * layers * context * dim,
        slots=context,
    )
