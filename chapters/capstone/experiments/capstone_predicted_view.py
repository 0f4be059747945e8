"""The predicted steps as a picture: each number of GPUs, each way of spreading the step."""

from collections.abc import Mapping
from typing import Any

from compile_lab.page.figures import Drawing
from compile_lab.page.marks import dots
from compile_lab.page.tables import Table

NAMES = {"fused": "eager", "compile": "compiled"}


def picture(result: Mapping[str, Any], provenance: object | None = None) -> Drawing:
    """A row a number of GPUs, a dot a rung and pattern; the table says what limits each."""
    rows = result["rows"]
    at = {(row["rung"], row["pattern"], row["ranks"]): row for row in rows}
    devices = sorted({row["ranks"] for row in rows if row["ranks"] > 1})
    series = {
        f"{NAMES[rung]}, {pattern}": [at[rung, pattern, n]["ms"] for n in devices]
        for rung, pattern in dict.fromkeys((row["rung"], row["pattern"]) for row in rows if row["ranks"] > 1)
    }
    told = [
        (
            f"{NAMES[row['rung']]}, {row['pattern']}", f"{row['ranks']:,}", f"{row['ms']:.1f}",
            f"{row['device_ms']:.1f}", f"{row['issued_ms']:.1f}", f"{100 * row['kept']:.0f} %",
        )
        for row in rows
    ]  # fmt: skip
    last = {name: of[-1] for name, of in series.items()}
    best = min(last, key=last.__getitem__)
    return dots(
        [f"{n:,} GPUs" for n in devices],
        series,
        unit="ms",
        title=f"Predicted for {devices[-1]:,} GPUs, a step takes {last[best]:.0f} ms at the least: {best}.",
        caption="None of these was measured",
        provenance=provenance,
        table=Table(["", "GPUs", "step, ms", "device, ms", "host, ms", "each GPU's speed"], told, align="lrrrrr"),
    )
