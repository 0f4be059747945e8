"""Private names behind an operator of the reader's own: what it is made of, for another process to make it again."""

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket, _OpNamespace, _Ops

Parts = tuple[str, str, str, Callable[..., Any], dict[str, Callable[..., Any] | None]]


def readers_operators(modules: Collection[str]) -> list[CustomOpDef]:
    """The operators made by ``torch.library.custom_op`` in these modules."""
    return [each for each in OPDEFS.values() if each._init_fn.__module__ in modules]


def parts_of(operator: CustomOpDef) -> Parts:
    """Namespace, name, schema, function, and what was registered for it."""
    registered = {
        "fake": operator._abstract_fn,
        "backward": operator._backward_fn,
        "setup_context": operator._setup_context_fn,
    }
    return operator._namespace, operator._name, operator._schema, operator._init_fn, registered


def operator_again(namespace: str, name: str, schema: str, fn: Callable[..., Any], registered: Any) -> CustomOpDef:
    """The operator of these parts; the one that is there, if it has been made."""
    if known := OPDEFS.get(f"{namespace}::{name}"):
        return known
    operator = CustomOpDef(namespace, name, schema, fn)
    operator.register_kernel(None)(fn)
    if registered["fake"]:
        operator.register_fake(registered["fake"])
    if registered["backward"]:
        operator.register_autograd(registered["backward"], setup_context=registered["setup_context"])
    return operator


def place_of(thing: Any) -> tuple[str, ...] | None:
    """Where under ``torch.ops`` a thing is found: its namespace, operator and overload; None for anything else."""
    if isinstance(thing, _Ops):
        return ()
    if isinstance(thing, _OpNamespace):
        return (thing.name,)
    if isinstance(thing, HigherOrderOperator):
        return "higher_order", thing._name
    if isinstance(thing, OpOverloadPacket):
        return tuple(thing._qualified_op_name.split("::"))
    if isinstance(thing, OpOverload):
        return (*thing._name.partition(".")[0].split("::"), thing._overloadname)
    return None


def found_at(place: tuple[str, ...]) -> Any:
    """What lies there. AttributeError, which names it, for an operator that this process has not."""
    found: Any = torch.ops
    for name in place:
        found = getattr(found, name)
    return found
