"""Exercises of chapter 10, mixed precision."""

from ..exercises.judging import exercise


@exercise("10.4")
def casts_of_parameters(answer: tuple[int, int]) -> str | None:
    """50 parameters, 8 micro-batches: in one region, in a region each."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        return "this asks for two numbers, (one_region, a_region_each)."
    one, each = answer
    if one != 50:
        return f"in one region autocast keeps each copy, and {one} casts are not that."
    return None if each == 50 * 8 else f"each region begins without copies, and {each} casts are not that."
