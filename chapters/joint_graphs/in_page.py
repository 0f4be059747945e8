"""Exercises of chapter 03, joint graphs."""

from ..exercises.judging import exercise

KEPT_NBYTES = {"default": 4000, "min_cut": 0}
"""What each partitioner keeps in 03.1 besides the inputs: a test asks torch."""


@exercise("03.1")
def predicted_bytes(answer: tuple[int, int]) -> str | None:
    """Bytes that sin(x) * w keeps besides its inputs, 1000 floats each: by the default partition, and by min-cut."""
    if not isinstance(answer, tuple) or len(answer) != 2 or not all(type(each) is int for each in answer):
        return "this asks for two whole numbers: (default, min_cut)."
    for (partitioner, kept), said in zip(KEPT_NBYTES.items(), answer, strict=True):
        if said != kept:
            more = "more" if said < kept else "less"
            return f"{partitioner} keeps {more} than {said} bytes: which tensors do the two gradients read?"
    return None
