"""What one machine can serve, as it is seen: a decode step's two limits, and its memory, for any model."""

from ..doors import check_amount
from ..page.axes import Range
from ..page.figures import Drawing
from ..page.marks import Axis, Row, segments
from ..page.units import in_gb, significant
from .serving import Capacity, capacity, sized_work

WEIGHTS = {"16 bits": 2.0, "8 bits": 1.0, "4 bits": 0.5}
HEADS = ("1", "4", "8")
"""How many heads of queries share one key and value; 1 is plain multi-head attention."""
LIGHT = 0.1
"""Up to this share of the weights the caches hardly count."""


def axes(bandwidth: float = 4.0, rate: float = 700.0) -> dict[str, tuple[str, ...] | Range]:
    """The controls of `panel`; bandwidth in TB/s and rate in TFLOP/s start where a machine was measured."""
    return {
        "weights": tuple(WEIGHTS),
        "query_heads_a_key": HEADS,
        "model": Range(0.1, 500, 7, 0.1, "1e9 weights", log=True),
        "batch": Range(1, 1024, 8, log=True),
        "context": Range(128, 131_072, 4096, 128, "tokens", log=True),
        "bandwidth": Range(0.02, 10, bandwidth, 0.01, "TB/s", log=True),
        "arithmetic": Range(0.1, 2500, rate, 0.1, "TFLOP/s", log=True),
        "memory": Range(4, 1000, 141, 1, "GB", log=True),
    }


def panel(
    weights: str,
    query_heads_a_key: str,
    model: float,
    batch: int,
    context: int,
    bandwidth: float,
    arithmetic: float,
    memory: float,
) -> list[str | Drawing]:
    """A decode step at its limits; ``context`` counts the tokens in each cache.

    ValueError for a size or a rate that is not above 0.
    """
    for name, value in {"bandwidth": bandwidth, "arithmetic": arithmetic, "memory": memory}.items():
        check_amount(name, value)
    work = sized_work(model, context, WEIGHTS[weights], heads_a_key=int(query_heads_a_key))
    found = capacity(work, batch, memory * 1e9, bandwidth * 1e12, arithmetic * 1e12)
    return [summary(found), *limits(found, memory * 1e9)]


def summary(found: Capacity) -> str:
    """The step, its tokens a second, what fits, and what binds, in words."""
    each = found.tokens_per_s / found.batch
    return (
        f"**{significant(found.step_ms)} ms** a step at least: {significant(found.tokens_per_s)} tokens/s, "
        f"{significant(each)} to each sequence. The weights take {in_gb(found.work.weights_nbytes)}, a "
        f"sequence's cache {in_gb(found.work.cache_nbytes)}; **{found.most_sequences:,} sequences fit**. "
        f"{_binds(found)}"
    )


def _binds(found: Capacity) -> str:
    """What binds a step, and what one more sequence then costs."""
    if found.limit == "memory size":
        return "**It does not fit**: the step below would need more memory than there is."
    if found.limit == "arithmetic":
        return "**Arithmetic binds**: each further sequence takes its share of the step longer."
    work = found.work
    caches = found.batch * work.cache_nbytes / work.weights_nbytes
    if caches <= LIGHT:
        return "**Reading binds**, and the step reads the weights above all: a larger batch is almost free."
    each_ms = found.reading_ms * work.cache_nbytes / work.nbytes(found.batch)
    return (
        f"**Reading binds**: the caches are {significant(caches)} times the weights, and each further sequence adds "
        f"{significant(each_ms)} ms to the step."
    )


def limits(found: Capacity, memory_nbytes: float) -> list[Drawing]:
    """Milliseconds to read, with the weights' share apart, and to compute; and the bytes beside the memory."""
    work, caches = found.work, found.batch * found.work.cache_nbytes
    weights_ms = found.reading_ms * work.weights_nbytes / work.nbytes(found.batch)
    needed = work.nbytes(found.batch) / 1e9
    step = [
        Row("reading", {"weights": weights_ms, "caches": found.reading_ms - weights_ms}),
        Row("arithmetic", {"matmuls": found.computing_ms}),
    ]
    memory = [Row("needed", {"weights": work.weights_nbytes / 1e9, "caches": caches / 1e9})]
    colours = {"weights": "blue", "caches": "orange", "matmuls": "green"}
    fits = "fits" if needed <= memory_nbytes / 1e9 else "does not fit"
    return [
        segments(
            step,
            Axis("a step at least", "ms"),
            title=f"{found.limit[0].upper()}{found.limit[1:]} is the limit.",
            caption="Limits only: no time of launches or of activations",
            colours=colours,
        ),
        segments(
            memory,
            Axis("memory", "GB"),
            title=f"It {fits}.",
            colours=colours,
            references={f"the machine's {in_gb(memory_nbytes)}": (memory_nbytes / 1e9, "vermillion")},
        ),
    ]
