"""What people struggle with, asked of a captured model by name: each a small function that finds it, or None.

The questions are those that torch's and transformers' trackers are asked most. A question whose part failed is not
asked, and the report says so.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from ..dynamo.tracing import GraphBreak
from ..page.units import with_unit
from ..source import readers_line, stack
from .advice import cure_of
from .captured import Captured, PartFailed
from .cards import NamedFinding
from .switches import Switched
from .tries import Tried
from .wrapping import wrapping

Answer = tuple[str, str, str] | None
"""What was found: its title, what is told of it, its cure."""
Question = Callable[[Captured], Answer]
QUESTIONS: dict[str, Callable[[Captured], NamedFinding | None]] = {}
GPU_MULTIPLE = 8
"""Elements of 16 bits that a row's size is a multiple of where tensor cores read it best: 16 bytes."""
LARGE_SIDE = 1024
UNROLLED = 16
"""Turns of a loop from which it is reported: fewer are what layers written one after another have, too."""


def question(ask: Question) -> Question:
    """Register a question under its function's name, which is the finding's, too."""

    def finding(found: Captured) -> NamedFinding | None:
        answer = ask(found)
        return answer and NamedFinding(ask.__name__, *answer)

    QUESTIONS[ask.__name__] = finding
    return ask


def answers(found: Captured) -> tuple[tuple[NamedFinding, ...], tuple[str, ...]]:
    """What was found, and the questions that could not be asked, each with what failed."""
    findings, unasked = [], []
    for name, ask in QUESTIONS.items():
        try:
            if finding := ask(found):
                findings.append(finding)
        except PartFailed as error:
            unasked.append(f"{name}: {error.why}")
    return tuple(findings), tuple(unasked)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


@question
def compiled_step_raises(found: Captured) -> Answer:
    """Does the step that runs eagerly raise once it is compiled?"""
    if not (step := found.compiled) or step.ran:
        return None
    return (
        "Compiled, your step raises an error.",
        f"`torch.compile` on this machine: {step.raised}. Eagerly, the same step runs.",
        _sentence(cure_of(step.raised)),
    )


@question
def parts_at_their_limit(found: Captured) -> Answer:
    """Are parts compiled one by one so unlike that torch gives up on them?"""
    if not (found.handed and (limited := found.handed.at_limit)):
        return None
    first = limited[0]
    return (
        "Of the parts that you compile one by one, torch gives up on some.",
        f"`{first.function}` ({first.place}) is compiled {first.compilations} times, then "
        f"`torch._dynamo.config.{first.limit}` is reached; again because: {'; '.join(first.failed)}.",
        "Compile the model as a whole; or let the parts not differ in what is guarded: hand all of them one backend "
        "object, and keep numbers that differ in tensors.",
    )


@question
def parts_left_eager(found: Captured) -> Answer:
    """Does ``module.compile()`` leave parts eager because their class is torch's own?"""
    if not (found.handed and (left := found.handed.left_eager)):
        return None
    kinds = sorted({type(found.given.model.get_submodule(path)).__name__ for path in left})
    return (
        "Parts that you compile in their place stay eager.",
        f"`{left[0]}`{f' and {len(left) - 1} more' if left[1:] else ''}: under `module.compile()` torch "
        f"{torch.__version__} compiles nothing of its classes ({', '.join(kinds)}), and does not say so; 2.14 does.",
        f"Put `torch.compile({left[0]})` in the place of `{left[0]}`, or compile a class of your own around it.",
    )


@question
def wrapping_order(found: Captured) -> Answer:
    """Are checkpoints, compile, FSDP2, DDP or TP applied in an order that is wrong, raises, or is silently slow?"""
    if not (wrapped := wrapping(found.given)):
        return None
    outcome, why, cure = wrapped.verdict
    return (f"The order in which the model is wrapped: {outcome}.", why, cure) if cure else None


@question
def learning_rate(found: Captured) -> Answer:
    """Is the learning rate of the reader's optimizer a Python float, so that a compiled step compiles again?"""
    optimizer = found.given.optimizer
    if optimizer is None or all(isinstance(each["lr"], torch.Tensor) for each in optimizer.param_groups):
        return None
    kind, again = found.rates
    if not any(again):
        return None
    rates = [f"torch.tensor({float(each['lr']):g})" for each in optimizer.param_groups]
    cure = f"Give it a tensor: `{kind}(parameters, lr={rates[0]})`."
    if len(rates) > 1:  # one tensor for all of them would be one rate for all of them
        cure = f"Give each of its {len(rates)} groups a tensor of its own: `{{'params': …, 'lr': {rates[0]}}}`, …"
    return (
        "The learning rate is a Python float.",
        f"A compiled {kind}.step was compiled again for {sum(again)} of {len(again)} changed rates.",
        cure,
    )


@question
def momentum_that_cycles(found: Captured) -> Answer:
    """Does a scheduler change the momentum in every step, so that a compiled step compiles again?"""
    called, again = found.momentum
    if not any(again):
        return None
    kind = type(found.given.optimizer).__name__
    return (
        "The scheduler changes the momentum, too, and the compiled step compiles again for it.",
        f"A scheduler that cycles `{called}` is on this optimizer; `{kind}.step` compiled by itself compiled again for "
        f"{sum(again)} of {len(again)} changes, whatever the learning rate is.",
        "Cycle the learning rate alone: `OneCycleLR(…, cycle_momentum=False)`, `CyclicLR` likewise; or leave the "
        "optimizer's step uncompiled.",
    )


@question
def made_on_the_cpu(found: Captured) -> Answer:
    """Does the forward make a tensor on the CPU that meets one of the GPU?"""
    if not (where := found.on_two_devices):
        return None
    nodes = [node for graph in found.trace.graphs for node in graph.module.graph.nodes if node.op == "call_function"]
    made = [node for node in nodes if not node.all_input_nodes and "device" not in node.kwargs]
    lines = dict.fromkeys(
        f"`{line.text}` ({line})"
        for node in made
        if isinstance(node.meta.get("example_value"), torch.Tensor)
        and (line := readers_line(reversed(stack(node.meta.get("stack_trace") or ""))))
    )
    return (
        "On a GPU the step raises: a tensor of the CPU meets one of the GPU.",
        f"{where}" + (f" Made without a device: {', '.join([*lines][:3])}." if lines else ""),
        _sentence(cure_of(where)),
    )


@question
def unrolled_loop(found: Captured) -> Answer:
    """Is most of the graph one line's operations over and over, in one call of one module: a Python loop, unrolled?"""
    ops = [node for graph in found.trace.graphs for node in graph.module.graph.nodes if node.op.startswith("call")]
    times: Counter[tuple[str, Any, str]] = Counter()
    for node in ops:
        line = readers_line(reversed(stack(node.meta.get("stack_trace") or "")))
        if line:
            within = next(reversed(node.meta.get("nn_module_stack") or {"": None}))
            times[f"{line}: {line.text}", str(node.target), within] += 1
    again = {key: count for key, count in times.items() if count >= UNROLLED}
    if 2 * sum(again.values()) < len(ops) or not again:
        return None
    (place, _, _), count = max(again.items(), key=lambda each: each[1])
    return (
        f"A Python loop is unrolled: {count} times `{place.partition(': ')[2]}`.",
        f"{place.partition(': ')[0]}: {sum(again.values()):,} of {len(ops):,} operations that Dynamo captured are of "
        f"{len({key[0] for key in again})} lines that run {UNROLLED} times or more in one call; each is compiled by "
        "itself, and another number of turns is another graph.",
        "One operation over the whole axis (`cumsum`, a convolution, a matmul) where there is one; else "
        "`torch._higher_order_ops.scan`, whose body is compiled once; or compile the body alone.",
    )


@question
def layer_index(found: Captured) -> Answer:
    """Are layers told apart by a number that each has of its own, such as layer_idx?"""
    values: dict[str, dict[str, str]] = defaultdict(dict)
    for guard in found.trace.guards:
        if match := re.fullmatch(r"(.+?)\.(\w+) == (-?\d+)", guard.text):
            alike = re.sub(r"(?<=\w)\[\d+\]", "[*]", match[1])
            if alike != match[1]:
                values[f"{alike}.{match[2]}"][match[1]] = match[3]
    several = {name: seen for name, seen in values.items() if len(set(seen.values())) > 1}
    if not several:
        return None
    name, seen = max(several.items(), key=lambda each: len(each[1]))
    return (
        f"Blocks are guarded one by one on `{name.rpartition('.')[2]}`.",
        f"{len(seen)} guards of the form `{name} == …` have different numbers: compiled block by block, each block is "
        "compiled anew, up to torch's limit of 8.",
        "Compile the whole model, or do not read the number in the blocks' forward.",
    )


@question
def wrapped_names(found: Captured) -> Answer:
    """Would the state dict of what was handed over carry ``_orig_mod.``?"""
    inside = [name for name in found.given.model.state_dict() if "_orig_mod." in name]
    if not found.given.was_compiled and not inside:
        return None
    return (
        "This state dict would carry `_orig_mod.`.",
        "`torch.compile(model)` is a wrapper, and its checkpoint does not fit a model that is not compiled.",
        "`model.compile()` compiles in place and keeps the names; or save `model._orig_mod.state_dict()`.",
    )


@question
def cache_in_training(found: Captured) -> Answer:
    """Does a transformers model keep a cache for generation while it trains?"""
    if not (found.given.model.training and found.given.makes_cache):
        return None
    return (
        "`use_cache` is on in training.",
        "The result holds `past_key_values`: keys and values are kept for a generation that does not come, which is "
        "more to trace, to guard and to hold.",
        "`model.config.use_cache = False`, or `use_cache=False` in the call.",
    )


@question
def logging_in_forward(found: Captured) -> Answer:
    """Does a logger, a warning or a print break the graph?"""
    said = re.compile(r"\b(_?logger|logging|log|warnings)\.\w+\(|warning_once|\bprint\(", re.IGNORECASE)
    lines = [each for each in found.trace.breaks if said.search(each.source) or "logging.Logger" in each.reason]
    return _at_a_break(
        lines,
        "A message breaks the graph",
        "what is said to a log is Python's, and is no tensor operation.",
        "Take the cause of the message away or say it outside of forward; or tell torch to leave such calls out: "
        "`torch._dynamo.config.ignore_logging_functions`.",
    )


def _at_a_break(breaks: Sequence[GraphBreak], title: str, why: str, cure: str) -> Answer:
    """Of the first of these breaks, if there is one."""
    if not breaks:
        return None
    return f"{title}: `{breaks[0].source}`.", f"{breaks[0].place}: {why}", cure


@question
def branch_on_a_value(found: Captured) -> Answer:
    """Does an if or a while ask for a tensor's value?"""
    lines = [each for each in found.trace.breaks if each.reason == "Data-dependent branching"]
    return _at_a_break(
        lines,
        "The program branches on a tensor's value",
        "Python waits for the device there, and each branch is a graph of its own.",
        "`torch.where(condition, a, b)` computes both in the graph; `torch.cond` one of them.",
    )


@question
def number_out_of_a_tensor(found: Captured) -> Answer:
    """Does .item(), .tolist() or the like end the graph?"""
    reads = re.compile(r"\.(item|tolist|numpy)\(|\b(int|float|bool)\(")
    lines = [each for each in found.trace.breaks if "item()" in each.reason or reads.search(each.source)]
    cure = f"Keep it a tensor; or {_with_switches(found.switched, 'capture_scalar_outputs')}"
    why = "the host waits for the device, and the graph ends."
    return _at_a_break(lines, "A number is read out of a tensor", why, cure)


@question
def size_that_hangs_on_values(found: Captured) -> Answer:
    """Does an operation end the graph, because the size of its result hangs on values, as nonzero's or a mask's?"""
    lines = [each for each in found.trace.breaks if each.reason == "Dynamic shape operator"]
    cure = "Weigh with a mask instead of taking rows out (`torch.where`), so that sizes stay; or "
    cure += _with_switches(found.switched, "capture_dynamic_output_shape_ops")
    return _at_a_break(lines, "A size hangs on values", lines[0].explanation if lines else "", cure)


def _with_switches(tried: Switched | None, otherwise: str) -> str:
    """The cure by switches, and what came of it when it was tried."""
    names = tried.switches if tried else (otherwise,)
    said = " and ".join(f"`torch._dynamo.config.{name} = True`" for name in names)
    if not tried:
        return f"{said}."
    if not tried.alone.breaks:
        return f"{said}: tried, the forward is one graph then."
    left = tried.alone.breaks[0]
    of_alone = f"it leaves {len(tried.alone.graphs) or 'no'} graphs and a break at {left.place}: `{left.source}`"
    if tried.branches and not tried.together.breaks:
        branches = " and ".join(f"`{each.source}` ({each.place})" for each in tried.branches)
        return (
            f"{said} together with taking away {branches}, which no graph can decide: tried, the forward is one graph "
            f"then (of the switch alone {of_alone}). Mind what the lines behind it make of nothing: a mean of no rows "
            "is NaN."
        )
    return f"{said}, which does not fix it alone: tried, {of_alone} ({left.reason.lower()})."


@question
def last_batch(found: Captured) -> Answer:
    """Does a smaller batch, as the last one of an epoch, compile again?"""
    sizes = [each for each in found.tries if re.fullmatch(r"batch of (?!1$)\d+", each.change)]
    if not sizes or not sizes[0].compiled_again:
        return None
    cure = "`drop_last=True` in the loader, or `torch._dynamo.mark_dynamic(tensor, 0)` before the first call."
    return "The last, smaller batch of an epoch compiles once more.", _why_again(sizes[0]), cure


@question
def every_length(found: Captured) -> Answer:
    """Does another length of the sequences compile again?"""
    lengths = [each for each in found.tries if each.change.startswith("length ") and each.compiled_again]
    if not lengths:
        return None
    cure = "Pad to a few lengths, or `torch._dynamo.mark_dynamic(tensor, 1)` before the first call."
    return "Another length of sequences compiles again.", _why_again(lengths[0]), cure


def _why_again(change: Tried) -> str:
    return f"{change.change}: {'; '.join(change.failed[-1:])[:200]}"


@question
def unused_parameters(found: Captured) -> Answer:
    """Are there parameters that the loss does not hang on? DDP waits for their gradients."""
    names = found.given.unused
    if not names:
        return None
    return (
        "The loss does not hang on every parameter.",
        f"{len(names)} get no gradient: {', '.join(f'`{name}`' for name in names[:5])}. DDP waits for each of them.",
        "`requires_grad_(False)` for what is not trained, or `find_unused_parameters=True` in DDP.",
    )


@question
def attention_written_out(found: Captured) -> Answer:
    """Is attention computed by a softmax over a square of the sequence?"""
    for graph in found.trace.graphs:
        for node in graph.module.graph.nodes:
            shape: Sequence[int] = getattr(node.meta.get("example_value"), "shape", ())
            named = "softmax" in str(getattr(node.target, "__name__", node.target))
            if node.op.startswith("call") and named and len(shape) >= 3 and shape[-1] == shape[-2] > 1:
                size = with_unit(node.meta["example_value"].nbytes)
                return (
                    "Attention is written out: its scores are a tensor.",
                    f"A softmax over {list(map(int, shape))}, {size} each time, grows with the square of the length.",
                    "`F.scaled_dot_product_attention` never writes the scores; FlexAttention for masks of your own.",
                )
    return None


@question
def logits_at_the_peak(found: Captured) -> Answer:
    """Are the logits of a large vocabulary what the peak is made of?"""
    memory = found.memory
    alive = memory.alive_at(memory.peak_at)
    widest = max((each.out_features for each in found.given.model.modules() if isinstance(each, nn.Linear)), default=0)
    logits = [each for each in alive if each.shape and each.shape[-1] == widest and each.kind != "gradient"]
    share = sum(each.nbytes for each in logits) / (memory.peak_nbytes or 1)
    narrow = max((each.in_features for each in found.given.model.modules() if isinstance(each, nn.Linear)), default=0)
    if share < 0.25 or widest < 2 * narrow:
        return None
    return (
        f"The logits are {100 * share:.0f} % of the peak.",
        f"{len(logits)} buffers {widest:,} wide, {with_unit(sum(each.nbytes for each in logits))}, are alive at it.",
        "Compute the loss in chunks of the batch, so that not all logits are there at once.",
    )


@question
def double_precision(found: Captured) -> Answer:
    """Does something compute in float64?"""
    nodes = [node for each in found.graphs.each for node in each.joint.nodes if node.dtype == "float64" and node.is_op]
    if not nodes:
        return None
    first = next((node for node in nodes if node.source), nodes[0])
    return (
        "Something computes in float64.",
        f"{len(nodes)} operations, the first of them {first.op}" + (f" at {first.source}." if first.source else "."),
        "A GPU computes it at a small part of its speed: look for a numpy array or a Python float made a tensor.",
    )


@question
def eval_mode(found: Captured) -> Answer:
    """Was the model handed over in eval mode?"""
    if found.given.model.training:
        return None
    return (
        "The model is in eval mode.",
        "Dropout and batch norm do not do what they do in training, and the graphs are other ones.",
        "`model.train()` before the step.",
    )


@question
def low_precision_weights(found: Captured) -> Answer:
    """Are trained weights of 16 bits, so that small updates are lost?"""
    trained = [(name, each) for name, each in found.given.model.named_parameters() if each.requires_grad]
    narrow = [name for name, each in trained if each.dtype in (torch.bfloat16, torch.float16)]
    if not narrow:
        return None
    share = "All" if len(narrow) == len(trained) else f"{len(narrow)} of {len(trained)}"
    which = ", ".join(f"`{name}`" for name in narrow[:3])
    more = f" and {len(narrow) - 3} more" if len(narrow) > 3 else ""
    return (
        f"{share} trained tensors have 16 bits.",
        f"An update of less than about 1/256 of a bfloat16 weight is rounded away: {which}{more}.",
        "Keep the weights in float32 and compute under `torch.autocast`.",
    )


@question
def odd_sizes(found: Captured) -> Answer:
    """Is the size of a large matrix no multiple of 8?"""
    odd = [
        (size, name, tuple(each.weight.shape))
        for name, each in found.given.model.named_modules()
        if isinstance(each, nn.Linear | nn.Embedding)
        for size in each.weight.shape
        if size >= LARGE_SIDE and size % GPU_MULTIPLE
    ]
    if not odd:
        return None
    size, name, shape = max(odd)
    return (
        f"A matrix has a side of {size:,}, no multiple of {GPU_MULTIPLE}.",
        f"`{name}.weight` {list(shape)}: in 16 bits its rows do not begin where tensor cores read best.",
        f"Pad it to {-(-size // 64) * 64:,}.",
    )
