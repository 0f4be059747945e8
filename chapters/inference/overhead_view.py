"""The cost of a call against the number of layers."""

from collections.abc import Sequence

from compile_lab.doors import door
from compile_lab.page.figures import Figure, Series, lines
from compile_lab.recordings import Recording

from .overhead import CallCost


@door
def recorded(recording: Recording) -> tuple[list[CallCost], list[CallCost]]:
    """Of the recording `overhead`: what surrounds a graph that does nothing, and calls of real code."""
    guards, calls = recording.result["guards"], recording.result["calls"]
    return [CallCost.from_json(one) for one in guards], [CallCost.from_json(one) for one in calls]


@door
def cost_lines(costs: Sequence[CallCost], provenance: object, caption: str = "") -> Figure:
    """Microseconds a call against the number of modules, a line for each way, both axes logarithmic.

    ValueError where nothing was measured by it.
    """
    varied = [one for one in costs if one.median_us is not None and one.modules]
    if not varied:
        raise ValueError(f"none of the {len(costs)} costs was measured by modules: nothing to draw")
    series = []
    for way in dict.fromkeys(one.way for one in varied):
        mine = sorted((one for one in varied if one.way == way), key=lambda one: one.modules)
        spread = [[getattr(one, name) for one in mine] for name in ("median_us", "low_us", "high_us")]
        series.append(Series(way, [one.modules for one in mine], *spread))
    said = "; ".join(f"{one.name} from {one.values[0]:.3g} to {one.values[-1]:.3g} µs" for one in series)
    return lines(
        series,
        x_title="modules",
        y_title="µs a call",
        title=f"A call with {min(series[0].at):g} to {max(series[0].at):g} modules: {said}.",
        caption=caption or "median and quartiles of a call",
        provenance=provenance,
        log_x=True,
        log_y=True,
    )
