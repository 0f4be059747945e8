"""Calls of attention over the product of what torch's choice of a kernel asks about, and what becomes of each."""

import random

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

AXES = {
    "dtype": ("float16", "bfloat16", "float32", "float64"),
    "heads": ((4, 4, 4), (4, 2, 2), (4, 1, 1), (4, 4, 2), (3, 2, 2)),
    "mask": ("none", "causal", "bool", "float", "learned", "row", "three"),
    "dropout": (0.0, 0.1, 0.125),
    "width": (
        (8, 8),
        (16, 16),
        (20, 20),
        (64, 64),
        (96, 96),
        (128, 128),
        (192, 192),
        (192, 128),
        (64, 32),
        (256, 256),
        (512, 512),
    ),
    "length": ((64, 64), (32, 64), (1, 64), (64, 1), (1, 1)),
    "grad": (False, True),
    "layout": ("plain", "transposed", "strided", "offset"),
    "backends": (
        "math flash mem_efficient cudnn",
        "flash",
        "mem_efficient",
        "cudnn",
        "flash mem_efficient cudnn",
        "math flash mem_efficient",
        "",
    ),
}
BACKENDS = AXES["backends"][0].split()


def cells(n, seed=0):
    """`n` cells: every pair of values stands in many of them."""
    chance = random.Random(seed)
    return [[chance.choice(values) for values in AXES.values()] for _ in range(n)]


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.kernel = "math"

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.name()
        if name.startswith("aten::_scaled_dot_product_") and "backward" not in name:
            self.kernel = name.removeprefix("aten::_scaled_dot_product_").removesuffix("_attention")
        return function(*args, **(kwargs or {}))


def tensor(heads, length, width, dtype, layout, grad):
    shape = {"transposed": (2, length, heads, width), "strided": (2, heads, width, length)}
    if layout == "offset":
        made = torch.empty(2 * heads * length * width + 1, dtype=dtype, device="cuda:0")[1:].view(2, heads, length, -1)
    else:
        made = torch.empty(shape.get(layout, (2, heads, length, width)), dtype=dtype, device="cuda:0")
    axes = {"transposed": (1, 2), "strided": (2, 3)}.get(layout)
    return (made.transpose(*axes) if axes else made).detach().requires_grad_(grad)


def masked(kind, heads, queries, keys, dtype):
    shapes = {"bool": (queries, keys), "row": (2, 1, 1, keys), "three": (heads, queries, keys)}
    if kind in ("none", "causal"):
        return None
    shape = shapes.get(kind, (2, heads, queries, keys))
    mask = torch.empty(shape, dtype=torch.bool if kind in ("bool", "row") else dtype, device="cuda:0")
    return mask.requires_grad_(kind == "learned")


def call(cell):
    """A cell's arguments, with the backends that it allows switched on."""
    dtype, heads, mask, dropout, width, length, grad, layout, backends = cell
    dtype = getattr(torch, dtype)
    for name in BACKENDS:
        getattr(torch.backends.cuda, f"enable_{name}_sdp")(name in backends.split())
    (hq, hk, hv), (wq, wv), (lq, lk) = heads, width, length
    q = tensor(hq, lq, wq, dtype, layout, grad)
    k = tensor(hk, lk, wq, dtype, layout, grad)
    v = tensor(hv, lk, wv, dtype, layout, grad)
    how = {"dropout_p": dropout, "is_causal": mask == "causal", "enable_gqa": tuple(heads) != (4, 4, 4)}
    return (q, k, v, masked(mask, hq, lq, lk, dtype)), how


def outcome(cell, backward=True):
    """The kernel that was taken, or the first words of the error; with what is wrong with a gradient, if anything."""
    (q, k, v, bias), how = call(cell)
    try:
        with Log() as log:
            out = F.scaled_dot_product_attention(q, k, v, bias, **how)
    except (RuntimeError, ValueError) as error:
        return " ".join(str(error).split()[:4])
    if out.shape != (*q.shape[:3], v.shape[3]) or out.dtype != q.dtype:
        return f"{log.kernel}: {out.shape} of {out.dtype}"
    if backward and out.requires_grad:
        out.sum().backward()
        for each in (q, k, v, bias):
            if each is None or not each.requires_grad:
                continue
            if (each.grad.shape, each.grad.dtype, each.grad.device) != (each.shape, each.dtype, each.device):
                return f"{log.kernel}: gradient {each.grad.shape} {each.grad.dtype} of {each.shape}"
    return log.kernel


def outcomes(cells, backward=True):
    return [outcome(cell, backward) for cell in cells]
