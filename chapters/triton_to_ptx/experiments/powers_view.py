"""Integer powers as a chip computed them: a square a power, in order, wrong ones in another colour."""

from collections.abc import Mapping

from compile_lab.page.canvas import WIDTH, Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table

LEFT, ROW, SIDE = 130.0, 44.0, 12.0


def strip(computed: Mapping[tuple[int, int], int], provenance: object, table: Table | None = None) -> Drawing:
    """`computed` maps (base, exponent) to what the chip gave. A line stands where a power passes 2⁵³."""
    canvas = Canvas()
    bases = list(dict.fromkeys(base for base, _ in computed))
    most = max(exponent for _, exponent in computed)
    step = (WIDTH - LEFT - SIDE) / most
    wrong = 0
    for at, base in enumerate(bases):
        y = ROW * at
        canvas.words(0, y + 20, f"{base}ⁿ", bold=True)
        passed = next(n for n in range(64) if base**n > 2**53)
        for exponent in (exponent for one, exponent in computed if one == base):
            bad = computed[base, exponent] != base**exponent
            wrong += bad
            title = f"{base}**{exponent}: {computed[base, exponent]:,}" + (f", not {base**exponent:,}" if bad else "")
            x = LEFT + exponent * step
            canvas.box(x, y + 4 - 4 * bad, SIDE, SIDE + 8 * bad, "vermillion" if bad else "sky", title=title)
        x = LEFT + passed * step - 2
        canvas.line([(x, y), (x, y + 24)], thick=3)
    ticks = [((LEFT + n * step + SIDE / 2) / WIDTH, str(n)) for n in range(0, most + 1, 10)]
    canvas.axis(0, ROW * len(bases), WIDTH, ticks, "exponent n")
    return Drawing(
        canvas.svg(),
        f"{wrong} of {len(computed)} powers are not what Python computes.",
        "Powers that fit into an int64, as the chip computed them; the upright line is where 2⁵³ is passed",
        table=table,
        provenance=provenance,
        legend=key({"exact": "sky", "wrong": "vermillion"}),
    )
