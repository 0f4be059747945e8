"""The cards on several devices: what one of them holds and sends, and how the model that was handed over is wrapped."""

from collections.abc import Iterator

import torch

from ..page.units import with_unit
from ..virtual_gpu.chips import chip as chip_named
from .captured import Captured
from .cards import CardFigure, CardPart, CardTable, CardText, ReportCard
from .shares import OnDevices, PatternRefused, RoutedLayer, SharedSequences, most_sent_nbytes, waiting
from .wrapping import RIGHT, WrappedPart, Wrapping, wrapping

NAMES = {"ddp": "DDP", "fsdp": "FSDP2", "ep": "expert parallel", "cp": "context parallel"}
UNEVEN = 1.1
"""So many times the mean on the fullest device are named in the verdict."""
MOST_PATHS = 3
RUN = (
    "The real step, on imaginary devices, with the batch cut and each attention over gathered keys and values. "
    f"torch {torch.__version__.partition('+')[0]} cannot run its own `context_parallel` on a CPU; on a GPU it gathers "
    "keys and values, or sends them round a ring. Not looked at: what the values of other positions would do, such as "
    "position numbers that the model makes itself."
)


def devices_card(found: Captured) -> ReportCard:
    """What a device of several holds and sends, whether that fits, and what of it was not run."""
    title = f"On {found.options.devices} devices"
    refused = found.parts.get("sharded")
    if isinstance(refused, PatternRefused):
        name = NAMES[found.options.pattern]
        verdict = f"{name[0].upper()}{name[1:]} does not go: {refused.why}."
        return ReportCard("devices", title, verdict, "bad", (CardText(f"**What to do:** {refused.todo}."),))
    step, chip = found.sharded, chip_named(found.options.chip)
    held = step.held
    kinds = {
        "parameters": held.parameters,
        "gradients": held.gradients,
        "AdamW's state": held.optimizer,
        "activations, as eager code keeps them": held.activations,
    }
    total = sum(kinds.values())
    sent = sum(each.sent_nbytes for each in (*step.sent, *(each for _, each in step.exchanged)))
    fullest = total + int((waiting(step.routed, step.devices) - 1) * held.activations) if step.routed else total
    fits = "fits" if fullest <= chip.memory_nbytes else "may not fit" if total <= chip.memory_nbytes else "does not fit"
    verdict = (
        f"Under {NAMES[step.pattern]} on {step.devices} devices each holds {with_unit(total)} and sends "
        f"{with_unit(sent)} a step; it {fits} {chip.one} of {with_unit(chip.memory_nbytes)}."
    )
    rows = [(each.kind, each.count, each.payload_nbytes, each.sent_nbytes) for each in step.sent]
    rows += [(label, each.count, each.payload_nbytes, each.sent_nbytes) for label, each in step.exchanged]
    parts: list[CardPart] = [
        CardTable(("a device holds", "bytes"), tuple(kinds.items())),
        CardTable(("collective", "count", "bytes of the whole tensors", "bytes a device sends"), tuple(rows)),
    ]
    more, uncertain, of_pattern = _of_pattern(step)
    severity = "bad" if fits != "fits" else "look" if uncertain else "good"
    figures = [CardFigure("held by a device", total, "bytes"), CardFigure("sent by a device", sent, "bytes")]
    if step.routed:
        figures.append(CardFigure("sent by the busiest", sent + _above_mean(step), "bytes"))
    return ReportCard("devices", title, f"{verdict}{more}", severity, (*parts, *of_pattern), tuple(figures))


def _of_pattern(step: OnDevices) -> tuple[str, bool, list[CardPart]]:
    """What the verdict says besides, whether the card has something to look at, and the parts that explain it."""
    if step.routed:
        return _of_experts(step, step.routed)
    if step.sequence:
        return _of_sequence(step, step.sequence)
    parts: list[CardPart] = [CardText("The real step, on imaginary devices, each with the batch that you handed over.")]
    in_one = step.pattern == "fsdp" and step.wrapped == 1
    if in_one:
        parts.append(
            CardText("No `ModuleList` was found, so all of it is gathered at once: shard its blocks one by one.")
        )
    return "", in_one, parts


def _of_experts(step: OnDevices, layers: tuple[RoutedLayer, ...]) -> tuple[str, bool, list[CardPart]]:
    times, counted = waiting(layers, step.devices), all(layer.counted for layer in layers)
    more = f" {_fullest(times)}" if counted and times >= UNEVEN else ""
    more += " The rows are computed from one batch." if counted else " The rows are an even share, not your router's."
    rows = []
    for layer in layers:
        loads = [int(load.computed) for load in layer.loads(step.devices)]
        mean, size = sum(layer.rows) // layer.experts, layer.there_nbytes
        rows.append((layer.path, layer.experts, layer.way, mean, max(layer.rows), max(loads), sum(loads), size))
    columns = (
        "layer",
        "experts",
        "computed by",
        "rows an expert, mean",
        "the fullest expert's",
        "the fullest device's",
    )
    experts = " and ".join(sorted({str(layer.experts // step.devices) for layer in layers}))
    most = most_sent_nbytes(layers, step.devices)
    copied = sum(sum(layer.rows) * layer.there_nbytes for layer in layers)
    texts = [
        f"Each device has a batch like yours, {experts} of the experts of each layer, and a slice of all other "
        "parameters, as FSDP2 has it. That rest is the real step, on imaginary devices.",
        "Rows are computed, not sent: in the forward each goes to its expert's device and its result comes back, and "
        "in the backward their gradients go the same ways; rows whose expert is on their own device stay. "
        f"The device that sends most sends {with_unit(most)} of rows.{f' {_fullest(times)}' if counted else ''}",
        "Not seen: the rows of other batches, and those of your router once it has been trained; a copy of the rows "
        f"that are exchanged, {with_unit(copied)}, if the exchange keeps one. Activations are those of a device that "
        "computes as many rows as its own batch makes; whether the fullest fits is judged as if all of them grew with "
        "its rows.",
    ]
    if any(layer.padded for layer in layers):
        texts.append("Batched matmuls give each expert as many rows, padding among them, and all of them travel.")
    if not counted:
        texts.append(
            "Without memory no router chooses: rows are an even share. Leave `--fake` out to have them counted."
        )
    return more, True, [CardTable((*columns, "all devices'", "bytes a row"), tuple(rows)), *map(CardText, texts)]


def _fullest(times: float) -> str:
    return (
        f"The fullest device computes {times:.2f} times the mean of rows, layer by layer, and the others wait for it."
    )


def _above_mean(step: OnDevices) -> int:
    """Bytes of rows that the device that sends most sends above what a device does on average."""
    return most_sent_nbytes(step.routed, step.devices) - step.exchanged[-1][1].sent_nbytes


def _of_sequence(step: OnDevices, shared: SharedSequences) -> tuple[str, bool, list[CardPart]]:
    devices, over_it = step.devices, shared.over_it
    more = f" Its part of each sequence is {shared.length // devices:,} of {shared.length:,} positions."
    keys = sum(call.nbytes for call in over_it)
    texts = [
        f"Each device has a part of the positions of every sequence of your batch, and a slice of each parameter, as "
        f"FSDP2 has it. The {len(over_it)} attention calls over {shared.length:,} positions gather keys and values, "
        f"{with_unit(keys)} in all, which no number of devices makes less.",
    ]
    if shared.causal:
        times = (2 * devices - 1) / devices
        texts.append(
            f"Attention is causal: cut in order, the last device would compute {times:.2f} times the mean of pairs, "
            "and the others would wait for it. So each takes a piece of the front and one of the back (head-tail), and "
            "all compute as many; torch's `context_parallel` does so, too."
        )
    if masked := sum(call.masked for call in over_it):
        texts.append(f"{masked} calls have a mask as a tensor; how evenly it divides the pairs was not looked at.")
    if left := len(shared.calls) - len(over_it):
        texts.append(f"{left} calls of other lengths are computed by each device as they are, and exchange nothing.")
    texts.append(_not_run(shared.not_run) if shared.not_run else RUN)
    more += " Its activations are computed, not run." if shared.not_run else ""
    return more, bool(shared.not_run), list(map(CardText, texts))


def _not_run(why: str) -> str:
    return (
        "Activations are computed, not run: all of them divided, and keys and values whole. The step of one device "
        f"could not be run: {why}. Parameters and their collectives are those of the real step."
    )


def wrapped_card(found: Captured) -> ReportCard:
    """In which order the model was wrapped, whether it is one to write, and the cure."""
    title, wrapped = "As you wrap it", wrapping(found.given)
    if wrapped is None:
        return ReportCard("wrapped", title, "Nothing is wrapped around it or its parts.", "good")
    outcome, why, cure = wrapped.verdict
    tensor_parallel = "TP → " if wrapped.tensor_parallel else ""
    parts = [each for each in (*wrapped.blocks, wrapped.whole) if each.levels]
    orders = "; ".join(f"{_paths(each)}: {tensor_parallel}{each.order}" for each in parts) or "TP alone"
    verdict = f"{orders}. {why}" if outcome == RIGHT else f"{orders}. {outcome[0].upper()}{outcome[1:]}: {why}"
    texts = [f"**What to do:** {cure}"] if cure else []
    texts += [f"To write, on torch 2.13: {wrapped.recommended}.", *_untraced(wrapped)]
    severity = "good" if outcome == RIGHT else "bad" if cure else "look"
    return ReportCard("wrapped", title, verdict, severity, tuple(map(CardText, texts)))


def _paths(part: WrappedPart) -> str:
    if part.paths == ("",):
        return "the whole model"
    named = [f"`{path}`" for path in part.paths if path]
    return ", ".join(named) if len(named) <= MOST_PATHS else f"{len(named)} modules from {named[0]} to {named[-1]}"


def _untraced(wrapped: Wrapping) -> Iterator[str]:
    yield "The order is read off the model: what stands inside was applied first."
    if wrapped.untraced:
        yield "Which of `compile()` and `fully_shard` came first cannot be read off, and changes nothing."
    if wrapped.tensor_parallel:
        yield "Slices of tensor parallel do not say when they were made; `parallelize_module` goes first."
    yield "A checkpoint that is called inside of a forward leaves no wrapper, and is not in this."
