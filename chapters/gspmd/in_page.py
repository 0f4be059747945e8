"""Exercises of chapter 15, annotations and what XLA makes of them."""

from collections.abc import Callable

from compile_lab.simulator.collectives import Collective

from ..exercises.judging import exercise

KINDS = ("all_reduce", "all_gather", "reduce_scatter")


@exercise("15.1", takes=Callable)
def ring_bytes(answer: Callable) -> str | None:
    """sent(kind, devices, nbytes): what one device sends on a ring, of a whole tensor of so many bytes."""
    for kind in KINDS:
        for devices in (2, 4, 8):
            got, right = answer(kind, devices, 4096), Collective(kind, "x", devices, 1, 4096).sent_nbytes
            if not isinstance(got, int | float) or isinstance(got, bool):
                return f"it returns {got!r}: this asks for a number of bytes."
            if abs(got - right) > 1e-6:
                much = "much" if got > right else "little"
                return f"for an {kind} of 4,096 bytes on {devices} devices it says {got:g}, which is too {much}."
    return None


TEXTS = {
    "a name and a call": (
        "  %all-reduce.1 = f32[64,128]{1,0} all-reduce(%dot.3), to_apply=%add\n"
        "  ROOT %copy = f32[64,128]{1,0} copy(%all-reduce.1)\n",
        {"all-reduce": 1},
    ),
    "an asynchronous pair": (
        "  %all-gather-start = (f32[16], f32[64]) all-gather-start(%p.0), dimensions={0}\n"
        "  %all-gather-done = f32[64] all-gather-done(%all-gather-start)\n",
        {"all-gather": 1},
    ),
    "three in two kinds": (
        "  %ag = f32[64]{0} all-gather(%p.0), dimensions={0}\n"
        "  %ar = (f32[8]{0}, f32[4]{0}) all-reduce(%a, %b), to_apply=%add\n"
        "  %ag.2 = f32[64]{0} all-gather(%ar), dimensions={0}\n",
        {"all-gather": 2, "all-reduce": 1},
    ),
    "no collective": ("  ROOT %dot = f32[64,128]{1,0} dot(%x, %all-reduce.7)\n", {}),
}


@exercise("15.2", takes=Callable)
def collectives_of(answer: Callable) -> str | None:
    """counts(hlo): how many collectives of each kind a compiled program's text has."""
    for name, (text, right) in TEXTS.items():
        got = answer(text)
        if not isinstance(got, dict):
            return f"it returns a {type(got).__name__}: this asks for a dictionary, of kinds and their counts."
        if wrong := sorted(kind for kind in {*got, *right} if got.get(kind, 0) != right.get(kind, 0)):
            return f"in a program with {name} it counts {got.get(wrong[0], 0)} times {wrong[0]}."
    return None


MATMULS = {
    ("R", "R"): "R",
    ("S(0)", "R"): "S(0)",
    ("R", "S(1)"): "S(1)",
    ("S(1)", "S(0)"): "P",
    ("S(0)", "S(1)"): "conflict",
}
"""Placements of the operands along one axis of the mesh, and of the result. The last: both need the axis."""


@exercise("15.3", takes=Callable)
def matmul_of(answer: Callable) -> str | None:
    """matmul(a, b): where ``a @ b`` is split if nothing is sent; P is a sum that is still to be made."""
    for (left, right), placed in MATMULS.items():
        if (got := answer(left, right)) != placed:
            return f"for a in {left} and b in {right} it says {got!r}."
    return None
