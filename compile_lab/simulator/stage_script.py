"""What the devices of a pipeline stage do in each moment of a step: the script that ``simulator.stage`` plays.

Moves are split up as ``traffic`` counts them, buffers as ``holdings`` sizes them. What is shown in a moment is the most
that is held in it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .holdings import (
    COPIES,
    GATHERED,
    GRADIENTS,
    LOGITS,
    PASSED,
    buffers,
    end_activations,
    experts_here,
    kept_of_a_layer,
    stage_activations,
    units,
)
from .patterns import Share
from .pipeline import simulate
from .sharding import experts_of
from .traffic import BUCKET_NBYTES, FIRST_BUCKET_NBYTES, FP32, INT64, LOSS_REDUCES, Layout
from .wire import buckets

MOMENTS = 17
"""From the devices at rest to the step that is done."""

SPANS = MOMENTS - 3
"""Of a pipeline's schedule: what is left besides rest, the gradients' last way, and the optimizer."""

Moves = list[tuple[str, str, str, int]]
"""Kind, axis, what it is, and the bytes of the whole tensors."""


@dataclass(frozen=True)
class Beat:
    """What the devices of a pipeline stage do in a moment, all alike but for their slices.

    ``has`` says of the layer in sight what is there besides what is always: "gathered", "gradients" (whole), "up and
    down" (theirs only) or "slices" of gradients.
    """

    phase: str
    says: str
    moves: tuple[tuple[str, str, str, int], ...]
    held: Mapping[str, int]
    has: frozenset[str] = frozenset()
    doing: str = ""


class _Device:
    """What a device of one stage holds, as the step goes on."""

    def __init__(self, layout: Layout, number: int, share: Share) -> None:
        self.layout, self.share, self.most = layout, share, buffers(layout, number)
        self.block, self.root = units(layout, number)
        own, tp, shard = layout.parameters_of(number), layout.size("tp"), layout.shards
        self.own, self.experts = own, experts_here(layout)
        in_blocks = [each for each in own if each.part == "block" and layout.travels(each)]
        self.padded_block = shard * sum(each.numbers(tp, shard) for each in in_blocks)
        self.padded_root = shard * sum(each.numbers(tp, shard) for each in own if each.part != "block")
        always = 0 if shard > 1 else self.most[GRADIENTS]  # DDP's buckets
        self.held = {"parameters": share.held.parameters, "gradients": 0, "state": share.held.optimizer}
        self.held |= {"activations": 0, GATHERED: 0, GRADIENTS: always, LOGITS: 0, COPIES: 0, PASSED: 0}

    def now(self, **changed: int) -> None:
        names = {"gathered": GATHERED, "on_the_way": GRADIENTS, "logits": LOGITS, "copies": COPIES, "passed": PASSED}
        for name, nbytes in changed.items():
            if name == "on_the_way" and self.layout.shards == 1:
                continue
            self.held[names.get(name, name)] = min(nbytes, self.most.get(names.get(name, name), nbytes))

    def gather(self, blocks: int, what: str, root: bool = False) -> Moves:
        layout = self.layout
        numbers = blocks * self.padded_block + root * self.padded_root
        along = layout.sliced_along
        return [("all_gather", along, what, numbers * layout.gathered)] if layout.gathers and numbers else []

    def scatter(self, blocks: int, what: str, root: bool = False) -> Moves:
        layout = self.layout
        numbers = (blocks * self.padded_block + root * self.padded_root) * layout.reduced
        if layout.shards == 1 or not numbers:
            return []
        found = [("reduce_scatter", layout.sliced_along, what, numbers)]
        if layout.size("replicate") > 1:
            found.append(("all_reduce", "replicate", f"{what}: slices", numbers // layout.shards))
        return found

    def gradients(self, blocks: int, root: bool) -> int:
        """Bytes of the gradients that are kept when those of so many blocks, and of what is around, are done."""
        layout = self.layout
        shard = layout.shards if "gradients" in layout.slices else 1
        if shard > 1:
            sliced = FP32 * (blocks * self.padded_block + root * self.padded_root) // shard
            return sliced + FP32 * blocks * self.experts
        return FP32 * (blocks * self.block + root * self.root)

    def beat(self, phase: str, says: str, moves: Moves, *has: str, doing: str = "") -> Beat:
        merged: dict[tuple[str, str, str], int] = {}
        for kind, axis, what, payload in moves:
            if payload and self.layout.size(axis) > 1:
                merged[kind, axis, what] = merged.get((kind, axis, what), 0) + payload
        found = tuple((*move, payload) for move, payload in merged.items())
        return Beat(phase, says, found, dict(self.held), frozenset(has), doing)


def _pairs(layout: Layout, pairs: float, forward: bool) -> Moves:
    """What tensor parallel sends for so many pairs of matmuls, of one micro-batch."""
    numbers = pairs * layout.rows // layout.pieces * layout.length * layout.shape.dim
    made, norm = int(numbers * layout.computed), int(numbers * FP32)
    if not layout.sequence:
        return [("all_reduce", "tp", "the pair's result" if forward else "its gradient", made if forward else norm)]
    gathered, scattered = (norm, made) if forward else (made, norm)
    return [
        ("all_gather", "tp", "the pair's input" if forward else "its gradient", gathered),
        ("reduce_scatter", "tp", "the pair's result" if forward else "its gradient", scattered),
    ]


def _attention(layout: Layout, layers: int, forward: bool) -> Moves:
    """What the attention of so many layers sends: a pair of tensor parallel's, or the keys and values of a sequence."""
    if layout.size("cp") == 1:
        return _pairs(layout, layers, forward)
    kind, what = ("all_gather", "keys and values") if forward else ("reduce_scatter", "gradients of keys and values")
    return [(kind, "cp", what, layers * layout.keys_and_values)]


def _mlp(layout: Layout, layers: int, forward: bool) -> Moves:
    """The same of their MLPs: the rows of tokens go to their experts and back, and before them their numbers."""
    if layout.size("ep") == 1:
        return _pairs(layout, layers, forward)
    mixed, rows = experts_of(layout.shape), layout.exchanged_rows * layout.shape.dim * layout.computed
    numbers = INT64 * mixed.count if mixed and forward else 0
    what = "rows to their experts, and back" if forward else "their gradients"
    return [("all_to_all", "ep", what, layers * (2 * rows + numbers))]


def _embedding(layout: Layout, forward: bool) -> Moves:
    numbers = layout.rows // layout.pieces * layout.length * layout.shape.dim * layout.stream
    positions = layout.length * layout.shape.dim * layout.stream
    if not layout.sequence:
        return [("all_reduce", "tp", "the embedding", numbers)] if forward else []
    kind = "reduce_scatter" if forward else "all_gather"
    return [(kind, "tp", "the embedding", numbers + positions)]


def _head(layout: Layout, forward: bool) -> Moves:
    tokens = layout.rows // layout.pieces * layout.length
    stream = tokens * layout.shape.dim * FP32
    if forward:
        gather = [("all_gather", "tp", "the head's input", stream)] if layout.sequence else []
        return [*gather, ("all_reduce", "tp", "three numbers a token", LOSS_REDUCES * tokens * FP32)]
    return [("reduce_scatter" if layout.sequence else "all_reduce", "tp", "the head's gradient", stream)]


def _norms(layout: Layout, last: bool) -> Moves:
    payload = 2 * (2 * layout.layers + last) * layout.shape.dim * FP32
    return [("all_reduce", "tp", "gradients of norms", payload)] if layout.sequence else []


class _Buckets:
    """DDP's: which are full when so many gradients are there."""

    def __init__(self, device: _Device) -> None:
        layout, tp = device.layout, device.layout.size("tp")
        parts = {
            part: [layout.reduced * each.numbers(tp) for each in reversed(device.own) if each.part == part]
            for part in ("last", "block", "first")
        }
        self.ends = {"head": len(parts["last"])}
        self.ends["others"] = self.ends["head"] + (layout.layers - 1) * len(parts["block"])
        self.ends["layer 1"] = self.ends["others"] + len(parts["block"])
        self.made = [*parts["last"], *parts["block"] * layout.layers, *parts["first"]]
        self.ends["all"] = len(self.made)
        self.members = buckets(self.made, BUCKET_NBYTES, FIRST_BUCKET_NBYTES)
        self.sent = 0
        self.used = layout.shards == 1

    def full(self, until: str) -> Moves:
        ready = [bucket for bucket in self.members[self.sent :] if bucket[-1] < self.ends[until]]
        self.sent += len(ready)
        payload = sum(self.made[position] for bucket in ready for position in bucket)
        word = f"{len(ready)} bucket{'s' * (len(ready) != 1)} of gradients"
        return [("all_reduce", "replicate", word, payload)] if self.used and ready else []


def straight(layout: Layout, share: Share) -> Iterator[Beat]:
    """The 17 moments of a step without a pipeline."""
    on, full, layers = _Device(layout, 0, share), None, layout.layers
    full, others, kept = _Buckets(on), layers - 1, kept_of_a_layer(layout)
    g, ends, reshard = layout.gathered if layout.gathers else 0, end_activations(layout), layout.reshard
    split, tp, scatters = layout.gathers, layout.size("tp") > 1, layout.shards > 1
    mlp, ep = "experts" if layout.assignments else "MLP", layout.size("ep") > 1
    sliced = "gradients" in layout.slices and scatters
    here = ("gathered",) if split else ()
    left = here if not reshard else ()  # what stays after a layer's forward

    yield on.beat("At rest", "Each device has its parameters and its part of the optimizer's state.", [])
    on.now(gathered=g * on.root, copies=on.most[COPIES])
    yield on.beat("Forward: embedding", "Tokens become vectors." + _if(split, " Embeddings and head are gathered."),
                  [*on.gather(0, "embeddings and head", True), *_embedding(layout, True)])  # fmt: skip
    on.now(gathered=g * (on.root + on.block))
    yield on.beat("Forward, layer 1: gather", "Before the layer runs, its slices are put together on every device."
                  + _if(ep, " Experts stay where they are.") if split
                  else "Nothing to gather: what a device computes with, it has.",
                  on.gather(1, "layer 1's parameters"), *here)  # fmt: skip
    on.now(gathered=g * (on.root + 2 * on.block), activations=kept // 2)
    second = on.gather(min(1, others), "layer 2's parameters, ahead")
    yield on.beat("Forward, layer 1: attention", _pair_in_words(layout, "The heads are"), [*_attention(layout, 1, True),
                  *second], *here)  # fmt: skip
    on.now(activations=kept)
    yield on.beat(f"Forward, layer 1: {mlp}", _mlp_in_words(layout), _mlp(layout, 1, True), *here)
    if split and reshard:
        on.now(gathered=g * (on.root + min(1, others) * on.block))
    said = {(True, True): "The gathered copy is dropped: each device has its slice again.",
            (True, False): "The gathered copy stays, for the backward."}.get((split, reshard), "")  # fmt: skip
    yield on.beat("Forward: layer 1 is done", (said + " What autograd saved stays until the backward.").strip(), [],
                  *left)  # fmt: skip
    on.now(gathered=g * (on.root + (2 if reshard else layers) * on.block), activations=layers * kept)
    yield on.beat(f"Forward: layers 2 to {layers}", "The same for each of the other layers.",
                  [*on.gather(max(0, others - 1), "parameters"), *_attention(layout, others, True),
                   *_mlp(layout, others, True)], *left)  # fmt: skip
    on.now(gathered=g * (on.root + (0 if reshard else layers) * on.block), activations=layers * kept + ends,
           logits=on.most[LOGITS])  # fmt: skip
    yield on.beat("Head and loss", "The turn: all activations are there, and no gradient yet."
                  + _if(tp, " Each device has a slice of the logits."), _head(layout, True), *left)  # fmt: skip
    back = min(1, others) if reshard else 0
    on.now(gathered=g * (on.root + (back if reshard else layers) * on.block), logits=0,
           on_the_way=layout.reduced * on.root * sliced, gradients=_made(on, 0, "last"))  # fmt: skip
    yield on.beat("Backward: loss and head", "The first gradients: those of the head and the last norm.",
                  [*_head(layout, False), *on.gather(back, f"layer {layers}'s parameters, again"), *full.full("head")],
                  *left)  # fmt: skip
    on.now(gathered=g * (on.root + (2 if reshard else layers) * on.block), activations=layers * kept,
           on_the_way=layout.reduced * (on.root + on.block) * sliced, gradients=_made(on, others, "last"))  # fmt: skip
    yield on.beat(f"Backward: layers {layers} to 2", _sent_in_words(layout) + " Activations go as gradients come.",
                  [*on.gather(max(0, others - 1) * reshard, "parameters, again"), *_attention(layout, others, False),
                   *_mlp(layout, others, False), *on.scatter(others, "gradients"), *full.full("others")],
                  *left)  # fmt: skip
    on.now(gathered=g * (on.root + on.block), activations=kept, on_the_way=layout.reduced * on.root * sliced)
    yield on.beat("Backward, layer 1: gather", "The layer's slices are put together a second time." if split and reshard
                  else "The gathered copy is still there." if split else "Nothing to gather.",
                  on.gather(reshard * 1, "layer 1's parameters, again"), *here)  # fmt: skip
    on.now(
        on_the_way=layout.reduced * (on.root + on.block) * sliced, gradients=_made(on, others + _half(sliced), "last")
    )
    yield on.beat(f"Backward, layer 1: {mlp}", "Gradients of up and down, of all that a device has of them "
                  "now.", _mlp(layout, 1, False), *here, "up and down")  # fmt: skip
    on.now(gradients=_made(on, others + (not sliced), "last"))
    yield on.beat("Backward, layer 1: attention", "Gradients of qkv and out.", _attention(layout, 1, False), *here,
                  "gradients")  # fmt: skip
    on.now(gathered=g * on.root, activations=0, on_the_way=layout.reduced * on.root * sliced,
           gradients=_made(on, layers, "last"))  # fmt: skip
    yield on.beat("Backward, layer 1: gradients", _sent_in_words(layout), [*on.scatter(1, "layer 1's gradients"),
                  *full.full("layer 1")], "slices")  # fmt: skip
    on.now(gradients=on.gradients(layers, True))
    yield on.beat("Backward: embedding", "The last gradients are made, and sent as the others.",
                  [*_embedding(layout, False), *on.scatter(0, "embeddings' and head's gradients", True),
                   *_norms(layout, True), *full.full("all")], "slices")  # fmt: skip
    on.now(gathered=0, on_the_way=0, copies=0)
    whole = scatters and not split
    yield on.beat("Optimizer", "Each device updates the slice whose state it has." if whole
                  else "Each device updates what it has.", [], "slices")  # fmt: skip
    numbers = layers * on.padded_block + on.padded_root
    yield on.beat("The step is done", "The new slices are gathered: parameters are whole on every device." if whole
                  else "Nothing is left to send.", [("all_gather", "shard", "new parameters", numbers * FP32)]
                  if whole else [], "slices")  # fmt: skip


def _if(condition: bool, words: str) -> str:
    return words if condition else ""


def _half(sliced: bool) -> float:
    return 0 if sliced else 2 / 3  # up and down have 8 of a layer's 12 parts


def _made(on: _Device, blocks: float, part: str) -> int:
    """Gradients kept when those of the head and of so many blocks are there; slices come when they were scattered."""
    if "gradients" in on.layout.slices and on.layout.shards > 1:
        return on.gradients(int(blocks), False)
    tp = on.layout.size("tp")
    return int(FP32 * (sum(each.numbers(tp) for each in on.own if each.part == part) + blocks * on.block))


def _pair_in_words(layout: Layout, what: str) -> str:
    if layout.size("tp") == 1:
        own = "its own sequences." if layout.size("cp") == 1 else (
            "its positions of each sequence. For that the keys and values of all positions are gathered.")  # fmt: skip
        return f"Each device computes {own}" + _if(layout.gathers, " Meanwhile the next layer is gathered.")
    how = "reduce-scattered" if layout.sequence else "added up on every device"
    first = _if(layout.sequence, "Slices of the tokens are gathered. ")
    return f"{first}{what} split: column, then row. The partial results are {how}."


def _mlp_in_words(layout: Layout) -> str:
    if layout.size("ep") > 1:
        return "Each token's row travels to the devices whose experts its router chose, is computed, and travels back."
    if layout.size("cp") > 1:
        return "Each device computes its positions of each sequence."
    return _pair_in_words(layout, "The MLP's width is")


def _sent_in_words(layout: Layout) -> str:
    if layout.shards > 1:
        kept = "and keeps its slice" if "gradients" in layout.slices else "though it keeps all its own"
        also = _if(layout.size("replicate") > 1, " Slices are added up over the copies.")
        also += _if(layout.size("ep") > 1, " Experts' gradients stay: they are of the rows of all devices.")
        return f"Gradients are reduce-scattered: each device gets its slice of the sum, {kept}.{also}"
    if layout.size("replicate") > 1:
        return "As buckets fill, their gradients are added up over all devices."
    return "Gradients stay where they are made: each device has its own parameters' only."


def pipelined(layout: Layout, number: int, share: Share) -> Iterator[Beat]:
    """The moments of one stage of a pipeline: 1F1B, its backward as long as its forward, in 14 spans."""
    on, pp, last = _Device(layout, number, share), layout.size("pp"), layout.is_last(number)
    line = simulate("1F1B", pp, layout.pieces, forward=1.0, input_grad=0.5, weight_grad=0.5)
    spans = min(SPANS, ticks := round(line.span))
    does = {round(action.start): action for action in line.of(number)}
    g, flow = layout.gathered if layout.gathers else 0, _Flow(on, number, pp, last)
    yield on.beat("At rest", "Each device has the layers of its stage.", [])
    on.now(copies=on.most[COPIES], passed=on.most[PASSED])
    for span in range(spans):
        these = range(span * ticks // spans, (span + 1) * ticks // spans)
        actions = [does[tick] for tick in these if tick in does]
        moves = [move for action in actions for move in flow.of(action.kind)]
        gathered = on.root + (layout.layers if flow.backward else min(2, layout.layers) * bool(actions)) * on.block
        on.now(gathered=g * gathered * flow.begun, logits=on.most[LOGITS] * bool(actions),
               activations=flow.most * stage_activations(layout, number))  # fmt: skip
        if flow.backward:
            on.now(gradients=share.held.gradients if not layout.gathers else 0, on_the_way=on.most[GRADIENTS])
        has = [*(["gathered"] if layout.gathers and (actions or flow.backward) else ()),
               *(["gradients"] if flow.backward else ())]  # fmt: skip
        doing = " ".join(f"{action.kind}{action.microbatch}" for action in actions) or "waits"
        at = f"{these.start + 1}" if len(these) == 1 else f"{these.start + 1} to {these[-1] + 1}"
        yield on.beat(f"Tick {at} of {ticks}", "F is a micro-batch's forward, B its backward; results go to the next "
                      "stage, gradients to the one before.", moves, *has, doing=doing)  # fmt: skip
        flow.over()
    tied = layout.shape.tied_head and (number == 0 or last)
    numbers = next((each for each in on.own if each.shape[0] == layout.shape.vocabulary), None)
    send = [("send", "pp", "the tied embedding's gradient", FP32 * numbers.numbers(layout.size("tp"),
             layout.size("shard")))] if tied and numbers else []  # fmt: skip
    on.now(gathered=0, activations=0, logits=0, gradients=share.held.gradients, passed=0)
    yield on.beat("Gradients", "Each stage has the sums over its micro-batches." + _if(layout.gathers, " Now they are "
                  "reduce-scattered, once."), [*on.scatter(layout.layers, "gradients", True), *_norms(layout, last),
                  *send], "slices")  # fmt: skip
    on.now(on_the_way=0, copies=0)
    yield on.beat("Optimizer", "Each device updates what it has. The step is done.", [], "slices")


class _Flow:
    """What a stage gathers and sends around its actions, and how many micro-batches are under way on it."""

    def __init__(self, on: _Device, number: int, stages: int, last: bool) -> None:
        self.on, self.number, self.stages, self.last = on, number, stages, last
        self.begun = self.backward = self.gathered = False
        self.under_way = self.most = 0

    def of(self, kind: str) -> Moves:
        on, layout = self.on, self.on.layout
        moves = [] if self.gathered else on.gather(layout.layers, "parameters", root=not self.begun)
        self.begun, self.gathered = True, kind == "B"
        boundary = layout.rows // layout.pieces * layout.length * layout.shape.dim * layout.stream
        moves += _pairs(layout, 2 * layout.layers, kind == "F")
        if self.number == 0:
            moves += _embedding(layout, kind == "F")
        if self.last:
            moves += _head(layout, kind == "F")
        if kind == "F":
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            return moves + [("send", "pp", "activations", boundary)] * (not self.last)
        self.most = max(self.most, self.under_way)
        self.under_way -= 1
        self.backward = True
        return moves + [("send", "pp", "their gradients", boundary)] * (self.number > 0)

    def over(self) -> None:
        self.most = self.under_way
