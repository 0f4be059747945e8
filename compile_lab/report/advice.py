"""Why did a part of a report fail, and what can its reader do? In two lines, from the exception."""

import re

from ..source import readers_line, stack

LONGEST, MESSAGE_LINES = 300, 3

ON_TWO_DEVICES = re.compile(r"Tensor device mismatch|tensors to be on the same device|Mismatching \S+ device between")
"""What torch says where a tensor of the CPU meets one of the GPU."""

_KNOWN = (
    (
        ON_TWO_DEVICES,
        "a tensor is made on the CPU in the forward. Make it where its partner is, as in `torch.arange(8, "
        "device=x.device)`, or once, as a buffer of the module (`register_buffer`)",
    ),
    (
        r"does not currently support double backward",
        "compiled code has no second derivative: in `forward`, take the inner gradient with `torch.func.grad` or "
        "`torch.func.jvp`, which are captured as operations; or compile the network and not the step: what is "
        "differentiated twice stays under `@torch.compiler.disable`",
    ),
    (
        r"took longer than|no answer within",
        "give each part longer with `--limit-s`, or hand over a smaller batch or fewer layers: the lines stay the same",
    ),
    (
        r"aten::empty_strided' with arguments from the 'CUDA'",
        "a tensor is made from values on the GPU, often a cache: set `model.config.use_cache = False` for training",
    ),
    (
        r"Could not run 'aten::\w+' with arguments from the '(CPU|Meta)'",
        "that operator has kernels for GPUs alone, and it has no fake function that gives a virtual one the shapes of "
        "its results: that is its limit, not your model's. A GPU runs it; here, the parts of the model before and "
        "behind it can be analysed",
    ),
    (
        r"ValueUnknown|GuardOnDataDependent|value that only the real GPU",
        "the code asks for a tensor's value: fix that graph break first, then everything behind it can be seen",
    ),
    (
        r"broke into \d+ graphs|(told of|computed for) one",
        "what one graph hands to the next is in neither: fix the graph breaks above, then the whole step can be "
        "analysed",
    ),
    (
        r"captured no graph|No graph was captured",
        "all of the forward runs eagerly: fix the first of the graph breaks, then there is a graph to look at",
    ),
    (r"needs Linux", "the virtual GPU runs on Linux alone: try Colab, or a container"),
    (
        r"triton|C\+\+|g\+\+|compiler|Python\.h",
        "the virtual GPU needs Triton and a C++ compiler: `python -m compile_lab.preflight` says which is missing",
    ),
    (
        r"cannot pickle '[\w.]*ProcessGroup'",
        "under FSDP2, DDP or TP a model holds its process group: hand it over before it is wrapped. (The order of "
        "wrapping is read off it all the same)",
    ),
    (
        r"must travel to another process|cannot travel",
        "something that the model holds cannot be sent to the virtual GPU (an open file, a lock, a tensor subclass): "
        "make it in the training loop instead",
    ),
    (r"process group is up", "call `torch.distributed.destroy_process_group()` before the report"),
    (r"nothing to train|no graph here needs a gradient", "make the loss hang on a parameter that requires a gradient"),
)
OTHERWISE = (
    "the message is torch's own; a batch of another size, or the model without its outermost wrapper, narrows it"
)


def advice(error: BaseException, limit_s: float) -> tuple[str, str]:
    """Why it failed, in a line, with the reader's own line if one is known, and what to do, in another."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = " ".join(lines[:MESSAGE_LINES])
    kind = type(error).__name__
    why = f"it was stopped after {limit_s:g} s" if kind == "PartTookTooLong" else f"{kind}: {said}"
    if at := readers_line(reversed(stack(getattr(error, "traceback", "")))):
        why = f"at {at}: {why}"
    return why if len(why) <= LONGEST else f"{why[:LONGEST]} …", cure_of(f"{kind} {error}")


def cure_of(error: str) -> str:
    """What to do about an error of torch's, from its words."""
    return next((todo for pattern, todo in _KNOWN if re.search(pattern, error)), OTHERWISE)
