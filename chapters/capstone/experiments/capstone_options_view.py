"""What the recording ``capstone_options`` shows: what each offer was predicted to save, and what it saved."""

from collections.abc import Mapping
from typing import Any

from compile_lab.doors import door
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, dotted
from compile_lab.page.tables import Table
from compile_lab.page.units import signed, with_quartiles
from compile_lab.recordings import Recording

from ...shared import capstone_view

Rung = Mapping[str, Any]
BASE, TOGETHER, TUNED = "stream", "together", "together, tuned"


def offers(recording: Recording) -> dict[str, Rung]:
    """Each way that was timed besides the rung it starts from."""
    return {name: row for name, row in capstone_view.rungs(recording.result).items() if name != BASE}


def change_ms(recording: Recording, name: str) -> float:
    """How much longer a way's step is than that of the rung it starts from; below 0 it is shorter."""
    rows = capstone_view.rungs(recording.result)
    return rows[name]["median_ms"] - rows[BASE]["median_ms"]


@door
def picture(recording: Recording) -> Drawing:
    """A row for each way: the change of the step as predicted and as measured; all else in the table."""
    base, found = capstone_view.rungs(recording.result)[BASE], offers(recording)
    (peer,) = capstone_view.peers(recording.result).values()
    rows, cells = [], []
    for name, row in found.items():
        low, high = (row[f"{end}_ms"] - base["median_ms"] for end in ("low", "high"))
        values = {"predicted": row["predicted_ms"], "measured": change_ms(recording, name)}
        rows.append(Row(name, values, spreads={"measured": (low, high)}))
        timed = with_quartiles(row["median_ms"], row["low_ms"], row["high_ms"])
        apart = capstone_view.distinct(row, base)
        ratio = f"{peer['median_ms'] / row['median_ms']:.2f}×"
        cells.append((name, row["does"], timed, apart, ratio, f"{row['peak_nbytes'] / 1e9:.1f} GB"))
    most = min((name for name in found if name not in (TOGETHER, TUNED)), key=lambda name: change_ms(recording, name))
    one, whole = (signed(change_ms(recording, name)) for name in (most, TOGETHER))
    title = f"{most} alone: {one} ms; together {whole} ms."
    columns = ["", "what is new", "ms a step", "told apart", "peer compiled = 1", "memory"]
    return dotted(
        rows,
        Axis("change of the step", "ms"),
        title=f"{title[0].upper()}{title[1:]}",
        caption=f"Against the rung {BASE}, {base['median_ms']:.1f} ms. Lines: the middle half of the steps",
        provenance=recording.provenance,
        table=Table(columns, cells, align="llrrrr"),
    )


@door
def text(recording: Recording) -> list[str]:
    """A paragraph each on what was gained, how good the predictions were, what tuning adds, and what was not tried."""
    rows, found = capstone_view.rungs(recording.result), offers(recording)
    base, whole = rows[BASE], rows[TOGETHER]
    (peer,) = capstone_view.peers(recording.result).values()
    ratios = [f"{peer['median_ms'] / row['median_ms']:.2f}" for row in (base, whole)]
    alone = [name for name in found if name not in (TOGETHER, TUNED)]
    apart = [name for name in alone if capstone_view.distinct(rows[name], base)]
    errors, own = [row["gradient_error"] for row in rows.values()], base["gradient_error"]
    wrong = max(alone, key=lambda name: abs(change_ms(recording, name) - rows[name]["predicted_ms"]))
    gb = [f"{row['peak_nbytes'] / 1e9:.1f}" for row in (base, whole)]
    paragraphs = [
        f"Together they take the step from {base['median_ms']:.1f} to {whole['median_ms']:.1f} ms, {ratios[1]} times "
        f"as fast as the compiled peer instead of {ratios[0]}, with {gb[1]} GB instead of {gb[0]}. "
        f"Of single ones, {' and '.join(apart) or 'none'} can be told apart from {BASE}. "
        f"The gradients are at most {100 * max(errors):.2f} % from float32's, where {BASE}'s are {100 * own:.2f} %.",
        f"The prediction farthest off is for {wrong}: {signed(rows[wrong]['predicted_ms'])} ms were predicted, and "
        f"{signed(change_ms(recording, wrong))} came.",
    ]
    if tuned := found.get(TUNED):
        ms, least = (f"{row['median_ms']:.1f}" for row in (tuned, whole))
        apart_or_not = "told apart" if capstone_view.distinct(tuned, whole) else "not told apart"
        paragraphs += [
            f"Tuned, it takes {ms} ms instead of {least}, {apart_or_not}, and {tuned['first_s']:.0f} s before the "
            f"first step instead of {whole['first_s']:.0f}."
        ]
    left = [f"{row['name']} ({row['stopped']})" for row in recording.result["stopped"]]
    return [*paragraphs, f"Not measured: {'; '.join(left)}."] if left else paragraphs
