"""What is guarded, in words? Dynamo's guard trees as sentences, named as Python names things, counted and folded.

A guard is a condition that was true while a frame was compiled and that its code relies on. Dynamo prints its guards
as a tree of accessors with addresses in it; here each leaf becomes one `Guard`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..capture import GuardTree

ABOUT = (
    "input tensor",
    "symbolic size",
    "Python argument",
    "attribute",
    "parameter or buffer",
    "global name",
    "global switch",
)
"""What a guard can speak of: the values of `Guard.about`."""


@dataclass(frozen=True)
class Guard:
    """One condition under which a compiled frame may be used again. ``source`` is the line that asked for it."""

    frame: str
    kind: str
    """torch's name for the kind of check."""
    text: str
    source: str
    about: str
    """Whose condition it is: one of `ABOUT`."""

    @property
    def ambient(self) -> bool:
        """True for what Dynamo guards in every frame (global switches, modes), whatever the code says."""
        return self.about == "global switch"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Folded:
    """Guards that differ only in a layer's number, as one: ``text`` has ``[*]`` in the number's place."""

    text: str
    about: str
    count: int
    source: str

    def __str__(self) -> str:
        return self.text if self.count == 1 else f"{self.count} × {self.text}"


def guards_of(tree: GuardTree) -> tuple[Guard, ...]:
    """The guards of one compiled frame, in the order in which they are checked."""
    return tuple(_leaves(tree))


def counted(guards: Iterable[Guard]) -> dict[str, int]:
    """How many guards speak of each thing, in the order of `ABOUT`; things that none speaks of are left out."""
    counts = Counter(guard.about for guard in guards)
    return {about: counts[about] for about in ABOUT if counts[about]}


def folded(guards: Iterable[Guard]) -> tuple[Folded, ...]:
    """The same guards with those that repeat from layer to layer in one line, at the place of the first."""
    groups: dict[tuple[str, str], list[Guard]] = {}
    for guard in guards:
        # A layer's number stands right after a name; sizes and strides stand after a space or a call.
        text = re.sub(r"(?<=\w)\[\d+\]", "[*]", guard.text)
        groups.setdefault((guard.about, text), []).append(guard)
    return tuple(
        Folded(text if len(same) > 1 else same[0].text, about, len(same), same[0].source)
        for (about, text), same in groups.items()
    )


def in_words(code: str) -> str:
    """A condition as torch writes it, a failed one too, in words: no addresses, no ``L[…]``, names as in Python."""
    return _condition("", re.split(r"\s+# ", code)[0])


def _leaves(tree: GuardTree) -> Iterator[Guard]:
    for line in tree.text.splitlines():
        kind, found, code = line.partition("+- ")[2].partition(": ")
        # Managers are the tree's branches; guards on torch's own marks only repeat that mark_dynamic was not called.
        if found and not kind.endswith("Manager") and not re.search(r"'_dynamo_\w+_indices'", code):
            condition, *comments = re.split(r"\s+# ", code)
            source = comments[0].strip() if comments else ""
            about = _about(kind, condition)
            if about == "global switch" or source.startswith("(unknown source"):
                source = ""
            yield Guard(tree.frame, kind, _condition(kind, condition), source, about)


def _about(kind: str, code: str) -> str:
    names = re.findall(r"\b[LG]\['", code)
    if kind in ("GLOBAL_STATE", "TORCH_FUNCTION_MODE_STACK", "DEFAULT_DEVICE") or not names:
        return "global switch"
    if kind == "LAMBDA_GUARD" and re.search(r"\.(size|stride|storage_offset)\(\)", code):
        return "symbolic size"
    if kind == "TENSOR_MATCH":
        return "parameter or buffer" if re.search(r"\._(parameters|buffers)\['", code) else "input tensor"
    if "L['" not in code:
        return "global name"
    bare = re.search(r"L\['\w+'\](?![.\[])", code)
    if bare and "type=<class 'torch.Tensor'>" in code:
        return "input tensor"
    return "Python argument" if bare else "attribute"


_NAMES = (
    (r"\b[LG]\['__import_(\w+)'\]", lambda m: m[1].replace("_dot_", ".")),
    (r"\bG\['__builtins_dict___\d+'\]\['(\w+)'\]", r"builtins.\1"),
    (r"\b[LG]\['(\w*?)_*\d{9,}_c\d+'\]", lambda m: m[1] or "…"),
    (r"\b[LG]\['(\w+)'\]", r"\1"),
    (r"\._(?:modules|parameters|buffers)\['(\d+)'\]", r"[\1]"),
    (r"\._(?:modules|parameters|buffers)\['(\w+)'\]", r".\1"),
)


def _named(code: str) -> str:
    for pattern, name in _NAMES:
        code = re.sub(pattern, name, code)
    return code


_TENSOR = re.compile(
    r"check_tensor\((?P<name>.+?), \w+, DispatchKeySet\(.*?\), (?P<dtype>torch\.\w+), .*?"
    r"requires_grad=(?P<grad>\w+), size=(?P<size>\[.*?\]), stride=(?P<stride>\[.*?\])\)"
)
_SWITCHES = {
    "GLOBAL_STATE": "grad mode, autocast, default dtype and the other global switches are as they were",
    "TORCH_FUNCTION_MODE_STACK": "the stack of torch function modes is as it was",
    "DEFAULT_DEVICE": "the default device is as it was",
}
_CHANGED = "GLOBAL_STATE changed: "


def _condition(kind: str, code: str) -> str:
    """A guard's condition in words, without addresses, which differ from run to run; torch's words if it is new."""
    named = _named(code)
    if match := _TENSOR.match(named):
        grad = "requires_grad" if match["grad"] == "True" else "no requires_grad"
        size, stride = (match[key].replace("None", "any") for key in ("size", "stride"))
        return f"{match['name']} is a {match['dtype']} tensor, size {size}, stride {stride}, {grad}"
    if kind in _SWITCHES:
        return _SWITCHES[kind]
    if code.startswith(_CHANGED):
        return f"a global switch changed: {code.removeprefix(_CHANGED).strip()}"
    if "saved_tensors_hooks" in code:
        return "no hooks on saved tensors"
    if match := re.match(r"___check_obj_id\((.+), \d+\)(?:, type=<class '(.+)'>)?", named):
        return f"{match[1]} is the same {match[2] or 'object'}"
    if match := re.match(r"___check_type_id\((.+), \d+\)(?:, type=<class '(.+)'>)?", named):
        return f"{match[1]} has type {match[2] or 'as before'}"
    if match := re.match(r"(not )?___dict_contains\('(\w+)', (.+)\.__dict__\)", named):
        return f"{match[3]} has {'no' if match[1] else 'an'} attribute {match[2]!r} of its own"
    # torch adds this way out to whatever a parameter fails; it is one for sizes alone.
    said = named if "size mismatch" in named else named.partition(". Guard failed on a parameter")[0]
    said = re.sub(r" \(id=0x[0-9a-f]+\)", "", said)
    return re.sub(r"0x[0-9a-f]{6,}|(?<!\d)\d{9,}(?!\d)", "…", said).strip()
