"""Is a break-even that two short runs predict the one that two long runs come to? A dozen small programs say.

They are programs whose crossing comes within seconds: quick to compile, and much faster when they are.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from compile_lab.modes.cost import Step
from compile_lab.modes.crossing import crossing
from compile_lab.modes.payback import Crossing

from ...experiment import Attempts
from ...registry import Progress
from ...shared import subjects

BUDGET_S = {"cuda": 110, "cpu": 220}
MOST_S = {"cuda": 8.0, "cpu": 12.0}
"""Of eager steps, a case."""
NUMEL = {"cuda": (32_768, 1024), "cpu": (1024, 1024)}
Built = tuple[Callable[..., Any], tuple[Any, ...], Step | None]


def chain(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """A dozen pointwise operations."""
    for _ in range(3):
        x = (x * w + b).clamp(-4, 4)
        x = x.abs() * 0.5 + 0.1
    return x


def rms_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    y = x - x.mean(-1, keepdim=True)
    return y / torch.sqrt(y.square().mean(-1, keepdim=True) + 1e-5) * w + b


def softmax(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    y = torch.exp(x * 0.125 - (x * 0.125).amax(-1, keepdim=True))
    return y / y.sum(-1, keepdim=True)


def gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(0.79788 * (x + 0.044715 * x * x * x)))


def gate(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    left, right = (x * w + b).chunk(2, -1)
    return left * torch.sigmoid(left) * right.clamp(-8, 8)


def rotary(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    cos, sin = w.chunk(2, -1)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


def huber(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """A loss written out, one number a row."""
    apart = (x * w - b).abs()
    return torch.where(apart < 1, 0.5 * apart * apart, apart - 0.5).mean(-1)


def adam(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """An optimizer's update, from a gradient and its two averages."""
    first = 0.9 * x + 0.1 * w
    second = 0.999 * x * x + 0.001 * w * w
    return x - 1e-3 * (first / 0.9) / (torch.sqrt(second / 0.999) + 1e-8) - 1e-5 * x


def _rows(fn: Callable[..., Tensor]) -> Callable[[str], Built]:
    def build(device: str) -> Built:
        rows, width = NUMEL[device]
        draw = torch.Generator().manual_seed(0)
        shapes = (rows, width), (width,), (width,)
        given = tuple(torch.randn(*shape, generator=draw).to(device) for shape in shapes)
        return fn, given, None

    return build


def _norm_step(device: str) -> Built:
    """Forward and backward of a norm that is written out."""
    fn, (x, w, b), _ = _rows(layer_norm)(device)
    x = x.requires_grad_()

    def step(called: Callable[..., Any]) -> Any:
        return torch.autograd.grad(called(x, w, b).sum(), x)

    return fn, (x, w, b), step


def _by_hand(device: str) -> Built:
    """A training step of an MLP whose norm and GELU are written out."""
    torch.manual_seed(0)
    dim = 256 if device == "cuda" else 32
    model, x = subjects.ByHand(dim).to(device), subjects.rows(65_536 if device == "cuda" else 8192, dim).to(device)

    def step(called: Callable[..., Any]) -> Any:
        loss = called(x, x)
        loss.backward()
        model.zero_grad()

    return model, (x, x), step


def _language_model(make: Callable[[str], "subjects.MiniGPT"]) -> Callable[[str], Built]:
    def build(device: str) -> Built:
        model = make(device).eval().bfloat16()
        given, _ = subjects.tokens(model, 1, 64)
        return model, (given,), subjects.inference_step(given)

    return build


def dropped(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """What ends a layer of a transformer: bias, dropout, residual, norm."""
    y = x + F.dropout(x * w + b, 0.1)
    return rms_norm(y, w, b)


@dataclass(frozen=True)
class CrossingCase:
    """A program that can cross: how it is built on a device, in which mode, and where."""

    build: Callable[[str], Built]
    what: str
    mode: str = "default"
    only: str = ""


CASES: dict[str, CrossingCase] = {
    "RMSNorm": CrossingCase(_rows(rms_norm), "five operations, one of them a mean"),
    "pointwise chain": CrossingCase(_rows(chain), "a dozen pointwise operations"),
    "LayerNorm": CrossingCase(_rows(layer_norm), "written out, forward"),
    "softmax": CrossingCase(_rows(softmax), "written out, of scaled values"),
    "GELU": CrossingCase(_rows(gelu), "written out, with tanh"),
    "gate": CrossingCase(_rows(gate), "SwiGLU's, with a clamp"),
    "rotary": CrossingCase(_rows(rotary), "a rotation of pairs"),
    "Huber loss": CrossingCase(_rows(huber), "written out, a number a row"),
    "Adam": CrossingCase(_rows(adam), "an update, written out"),
    "layer's end": CrossingCase(_rows(dropped), "bias, dropout, residual, norm"),
    "LayerNorm, training": CrossingCase(_norm_step, "written out, forward and backward"),
    "MLP, training": CrossingCase(_by_hand, "norm and GELU written out, forward and backward", only="cuda"),
    "MiniGPT": CrossingCase(
        _language_model(functools.partial(subjects.minigpt, "mini")),
        "one window, bf16, with CUDA graphs",
        "reduce-overhead",
        "cuda",
    ),
    "GPT-2": CrossingCase(
        _language_model(subjects.gpt2), "64 tokens, bf16, with CUDA graphs", "reduce-overhead", "cuda"
    ),
}


def measured(name: str, device: str = "cpu") -> Crossing:
    """One case, predicted and run to its crossing: some seconds. KeyError, naming those there are, for another."""
    if name not in CASES:
        raise KeyError(f"no case is called {name!r}; there are {', '.join(CASES)}")
    case = CASES[name]
    fn, args, step = case.build(device)
    return crossing(name, case.what, fn, *args, step=step, mode=case.mode, most_s=MOST_S[device])


def _row(name: str, device: str) -> dict[str, Any]:
    return measured(name, device).to_json()


def record(device: str, progress: Progress = iter, *, cases: tuple[str, ...] = tuple(CASES)) -> dict[str, Any]:
    """Each case's predicted and real crossing, as plain JSON values. About 110 s on a large GPU, 220 s on two cores.

    Returns ``{"cases": [Crossing as a dict], "stopped": {name: why}}``. A case that fails, or for which no time was
    left, is told under "stopped", and the others stand.
    """
    attempts, found = Attempts(BUDGET_S[device]), []
    for name in progress([name for name in cases if CASES[name].only in ("", device)]):
        found.append(attempts.in_time(functools.partial(_row, name, device), name=name))
        if device == "cuda":
            torch.cuda.empty_cache()
    return {"cases": [case for case in found if case], "stopped": attempts.by("name")}
