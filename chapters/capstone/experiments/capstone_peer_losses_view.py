"""What the recording ``capstone_peer_losses`` shows: Liger's kernels in eager mode, and whether a peer's ways train."""

import statistics

from compile_lab.doors import door
from compile_lab.page.units import signed
from compile_lab.recordings import Recording

from ...shared import capstone_view
from .capstone_peer_losses import BASE, LIGER

LAST = 50


def ends(recording: Recording) -> dict[str, list[float]]:
    """The mean of each way's last losses, one for each seed."""
    found: dict[str, list[float]] = {}
    for curve in recording.result["curves"]:
        found.setdefault(curve["name"], []).append(statistics.fmean(curve["losses"][-LAST:]))
    return found


@door
def text(recording: Recording) -> list[str]:
    """A paragraph each on Liger's kernels, on the losses beside their seeds' spread, and on what was not measured."""
    rows = capstone_view.peers(recording.result)
    eager, liger, compiled = rows["peer"], rows[LIGER], rows[BASE]
    apart = "told apart" if capstone_view.distinct(eager, liger) else "not told apart"
    paragraphs = [
        f"With Liger's layer norm, head and loss the eager step takes {liger['median_ms']:.1f} ms instead of "
        f"{eager['median_ms']:.1f}, {apart}, and {liger['peak_nbytes'] / 1e9:.1f} GB instead of "
        f"{eager['peak_nbytes'] / 1e9:.1f}, since no logits are kept. The gradients' error is "
        f"{100 * liger['gradient_error']:.2f} %, and {100 * eager['gradient_error']:.2f} % without Liger. In this run "
        f"the compiled peer's step takes {compiled['median_ms']:.1f} ms and {compiled['peak_nbytes'] / 1e9:.1f} GB."
    ]
    seeds, others = (last := ends(recording)).pop(BASE, []), last
    if len(seeds) > 1 and others:
        mean, spread = statistics.fmean(seeds), max(seeds) - min(seeds)
        means = {name.removeprefix("peer, "): statistics.fmean(ends) for name, ends in others.items()}
        far = ", ".join(f"{name} {signed(each - mean, '.4f')}" for name, each in means.items())
        outside = [name for name, each in means.items() if not min(seeds) <= each <= max(seeds)]
        paragraphs.append(
            f"{len(seeds)} seeds of the compiled peer end {spread:.4f} nats apart. From the mean of these, in nats, "
            f"the means of the other ways' seeds are: {far}. "
            + (
                f"Outside the spread of the peer's seeds is {', '.join(outside)}."
                if outside
                else "All are within the spread of the peer's seeds."
            )
        )
    why: dict[tuple[str, str], dict[str, None]] = {}
    for row in recording.result["stopped"]:
        why.setdefault((row["part"], row["stopped"]), {})[row["name"]] = None
    left = [f"{part} of {'; '.join(names)} ({reason})" for (part, reason), names in why.items()]
    return [*paragraphs, f"Not measured: {'. '.join(left)}."] if left else paragraphs
