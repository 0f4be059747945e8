"""Exercises of chapter 15, annotations and what XLA makes of them."""

from ..exercises.judging import exercise


@exercise("15.4", takes=list, expects="a list of names of weights")
def fewest_annotated(answer: list) -> str | None:
    """The fewest weights to annotate so that Shardy decides tensor parallel for all sixteen."""
    from .gspmd_block import LAYOUTS, block
    from .gspmd_propagation import decided
    from .gspmd_side_by_side import jax_example

    layout = LAYOUTS["tp"]
    found = decided(block, jax_example(), (layout.annotated(answer).weights, layout.x)).scopes()
    if wrong := [name for name, word in layout.weights.items() if found[name] != word]:
        return f"with these, {wrong[0]} becomes {found[wrong[0]]}; {len(wrong) - 1} others differ, too."
    if len(answer) > FEWEST:
        return f"all sixteen are as they should be, but fewer than {len(answer)} annotations do."
    return None


FEWEST = 2
"""Weights that are enough: the stream is whole, so that no split passes from the attention to the MLP."""
