"""What kind of work is an operator? Asked of its schema and tags where those tell, of its name where they do not."""

import functools
import re
from typing import Any

import torch

KINDS = (
    "matmul",
    "attention",
    "pointwise",
    "normalisation",
    "softmax and loss",
    "reduction",
    "index",
    "copy",
    "fill",
    "allocation",
    "view",
    "reading",
    "other",
)
"""In this order: where the arithmetic is, then where bytes are moved, then where nothing is."""

# Searched in the operator's name without overload, in this order.
_BY_NAME = (
    ("attention", r"scaled_dot_product|_attention_"),
    (
        "matmul",
        r"^_?(addmm|mm|bmm|baddbmm|addmv|mv|dot|matmul|linear|einsum)(_activation|_backward)?$|convolution|conv\d",
    ),
    ("normalisation", r"_norm(_|$)|batch_norm|rms_norm"),
    ("softmax and loss", r"softmax|nll_loss|cross_entropy|_loss"),
    ("index", r"embedding|index|gather|scatter|take|one_hot"),
    ("allocation", r"^(new_)?empty(_|$)|^resize_"),
    ("copy", r"^_?(copy|clone|to|to_copy|cat|stack|contiguous|repeat|flip|roll)_?$"),
    ("fill", r"^(new_)?(zeros|ones|full|arange|scalar_tensor|fill|zero)(_like|_)?$"),
    ("view", r"^(_unsafe_view|_reshape_alias|reshape|resolve_conj|resolve_neg|detach)$"),
    ("reading", r"^_local_scalar_dense$"),
    ("reduction", r"^(sum|mean|amax|amin|max|min|any|all|prod|var|std|argmax|argmin|norm|linalg_vector_norm)$"),
    # Without the tag that would say so: gradients of pointwise operators, and those over lists of tensors.
    ("pointwise", r"^(gelu|tanh|sigmoid|relu|threshold|silu|elu)_backward$|^_foreach|^_fused_adam"),
)


def kind_of(op: str) -> str:
    """The kind of an operator, one of `KINDS`, by its full name (``aten::add.Tensor``).

    "view" makes a tensor that shares its input's memory; "allocation" asks for memory and writes nothing;
    "reading" (``.item()``) hands a number to Python.
    """
    return _kind(op)


@functools.cache
def _kind(op: str) -> str:
    name = op.partition("::")[2].partition(".")[0]
    if is_view(op):
        return "view"
    if kind := next((kind for kind, pattern in _BY_NAME if re.search(pattern, name)), None):
        return kind
    return "pointwise" if torch.Tag.pointwise in overload(op).tags else "other"


def is_view(op: str) -> bool:
    """True if the schema says that what is returned shares an input's memory, and that nothing is written."""
    returns = overload(op)._schema.returns
    return any(one.alias_info is not None and not one.alias_info.is_write for one in returns)


def overload(op: str) -> Any:
    """The operator of that full name, as torch.ops has it."""
    namespace, _, rest = op.partition("::")
    name, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
