"""When does compiling help? Four cases of which everybody says how much, and what makes torch skip CUDA graphs.

The functions are small, so that they can be shown whole; the sizes are chosen by device, so that on a large GPU the
large one fills the chip. Everything compared is measured in the same run.
"""

import inspect
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from compile_lab._torch.dynamo import graph_break
from compile_lab._torch.inductor import inductor_config
from compile_lab.capture import NotCompiledError
from compile_lab.modes.cost import ModeCost, Step, measure

from ...experiment import reason
from ...registry import Progress
from ...shared import subjects
from .modes import training

WIDTH = {"cuda": 1024, "cpu": 128}
VOCABULARIES = {"cuda": (50_257, 50_304), "cpu": (601, 640)}
"""GPT-2's own, which is odd, and the next multiple of 64."""
ROWS = {"cuda": {"small": 64, "large": 32_768}, "cpu": {"small": 16, "large": 1024}}
MATRIX = {"cuda": 8192, "cpu": 512}


def many_pointwise(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Two matmuls, and after each a dozen pointwise operations on the result."""
    for _ in range(2):
        x = x @ w + b
        x = x * torch.sigmoid(1.702 * x)
        x = x.clamp(-4, 4) * 0.5 + 0.1
        x = torch.tanh(x).abs().neg().exp()
    return x


def many_breaks(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The same as many_pointwise, with a graph break after every line."""
    x = x @ w + b
    graph_break()
    x = x * torch.sigmoid(1.702 * x)
    graph_break()
    x = x.clamp(-4, 4) * 0.5 + 0.1
    graph_break()
    x = torch.tanh(x).abs().neg().exp()
    graph_break()
    x = x @ w + b
    graph_break()
    x = x * torch.sigmoid(1.702 * x)
    graph_break()
    x = x.clamp(-4, 4) * 0.5 + 0.1
    graph_break()
    return torch.tanh(x).abs().neg().exp()


def one_matmul(a: Tensor, b: Tensor) -> Tensor:
    """One large matmul, and nothing else."""
    return a @ b


class Gated(nn.Module):
    """A module that torch.jit.script accepts: two gated layers with norms."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            y = self.norm(x)
            x = x + self.down(torch.sigmoid(self.gate(y)) * torch.tanh(self.up(y)) * 1.5)
        return x


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Time of each case, eager and compiled, and what CUDA graphs do, as plain JSON values. Two minutes on a large GPU.

    Returns ``{"cases": [{"claim", "case", "size", "what", "costs": {name: ModeCost as a dict}}], "cuda_graphs":
    [{"case", "source", "whole", "parts"}], "vocabulary": [{"vocabulary", "part", "costs"}]}``; bf16 on a GPU, fp32 on
    a CPU. Raises NotCompiledError if compiled code did not run, but for the scripted module, where that is the
    question. Other errors are told as what became of their case.
    """
    steps = [("C15", many_pointwise), ("C17", many_breaks), ("C16", one_matmul), ("C18", Gated), ("", cuda_graph_cases)]
    steps.append(("", vocabulary_cases))
    cases, graphs, vocabulary = [], [], []
    for claim, subject in progress(steps):
        if subject is cuda_graph_cases:
            graphs = cuda_graph_cases(device)
        elif subject is vocabulary_cases:
            vocabulary = vocabulary_cases(device)
        elif subject is Gated:
            cases += [_scripted(claim, device, size, rows) for size, rows in ROWS[device].items()]
        elif subject is one_matmul:
            cases.append(_matmul(claim, device))
        else:
            cases += [_chain(claim, subject, device, size, rows) for size, rows in ROWS[device].items()]
    return {"cases": cases, "cuda_graphs": graphs, "vocabulary": vocabulary}


def _random(device: str, *shape: int) -> Tensor:
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(device, dtype)


def _chain(claim: str, fn: Callable[..., Tensor], device: str, size: str, rows: int) -> dict[str, Any]:
    width = WIDTH[device]
    args = _random(device, rows, width), _random(device, width, width) / width**0.5, _random(device, width)
    modes = ["eager", "default"] + ["reduce-overhead"] * (device == "cuda")
    costs = {mode: asdict(_no_grad(fn, *args, mode=mode)) for mode in modes}
    return {"claim": claim, "case": fn.__name__, "size": size, "what": f"{rows} × {width}", "costs": costs}


def _matmul(claim: str, device: str) -> dict[str, Any]:
    n = MATRIX[device]
    args = _random(device, n, n), _random(device, n, n)
    costs = {mode: asdict(_no_grad(one_matmul, *args, mode=mode)) for mode in ("eager", "default")}
    return {"claim": claim, "case": "one_matmul", "size": "large", "what": f"{n} × {n} by {n} × {n}", "costs": costs}


def _scripted(claim: str, device: str, size: str, rows: int) -> dict[str, Any]:
    torch.manual_seed(0)
    x = _random(device, rows, WIDTH[device])
    module = Gated(WIDTH[device]).to(device, x.dtype).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scripting is deprecated, which is part of the answer
        scripted = torch.jit.script(module)
        costs = {
            "eager": _no_grad(module, x, mode="eager"),
            "scripted": _no_grad(scripted, x, mode="eager"),
            "compiled": _no_grad(module, x, mode="default"),
            "compiled from the script": _compiled_from_script(scripted, x),
        }
    what = f"{rows} × {WIDTH[device]}"
    return {
        "claim": claim,
        "case": "Gated",
        "size": size,
        "what": what,
        "costs": {n: asdict(c) for n, c in costs.items()},
    }


def _no_grad(fn: Callable[..., Any], *args: Any, mode: str) -> ModeCost:
    return _or_stopped(fn, *args, mode=mode, step=subjects.inference_step(*args))


def _or_stopped(fn: Callable[..., Any], *args: Any, mode: str, step: Step) -> ModeCost:
    """``measure``; an error is what is told of the case, unless the compiled code did not run."""
    try:
        return measure(fn, *args, mode=mode, step=step, cold=False)
    except NotCompiledError:
        raise
    except Exception as error:
        return ModeCost(mode, stopped=reason(error))


def _compiled_from_script(scripted: nn.Module, x: Tensor) -> ModeCost:
    try:
        return _no_grad(scripted, x, mode="default")
    except NotCompiledError:  # torch 2.11; 2.13 refuses with an error
        return ModeCost("default", stopped="torch.compile accepts it and compiles nothing")


def head(x: Tensor, w: Tensor) -> Tensor:
    """A language model's last matmul: one row a token, one column a word of the vocabulary."""
    return x @ w.T


def vocabulary_cases(device: str) -> list[dict[str, Any]]:
    """The head alone, and a whole training step, with an odd vocabulary and one padded to a multiple of 64."""
    rows, width = ROWS[device]["large"], 768 if device == "cuda" else 64
    found = []
    for vocabulary in VOCABULARIES[device]:
        args = _random(device, rows, width), _random(device, vocabulary, width)
        alone = {mode: asdict(_no_grad(head, *args, mode=mode)) for mode in ("eager", "default")}
        module, args, step = training(device, vocabulary)
        whole = {mode: asdict(_or_stopped(module, *args, mode=mode, step=step)) for mode in ("eager", "default")}
        found += [{"vocabulary": vocabulary, "part": "the head alone", "costs": alone}]
        found += [{"vocabulary": vocabulary, "part": "a training step", "costs": whole}]
    return found


def plain(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x @ y).sum(0)


def with_a_cpu_scalar(x: Tensor, y: Tensor, scale: Tensor) -> Tensor:
    return torch.relu(x @ y) * scale


def through_the_cpu(x: Tensor, y: Tensor) -> Tensor:
    middle = (x @ y).cpu().sin()
    return torch.relu(middle.to(x.device) @ y)


def changes_its_input(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(0.5)
    return torch.relu(x @ y)


def at_three_lengths(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x @ y).sum(0)


CUDA_GRAPH_CASES = (plain, with_a_cpu_scalar, through_the_cpu, changes_its_input, at_three_lengths)


def cuda_graph_cases(device: str) -> list[dict[str, Any]]:
    """What CUDA graphs do with small functions, whole or (torch's default) cut into parts around an obstacle.

    One dict a function: ``case``, ``source``, and under ``whole`` and ``parts`` the ModeCost of ``reduce-overhead``.
    """
    rows = []
    for fn in CUDA_GRAPH_CASES:
        found = {}
        for name, parts in (("whole", False), ("parts", True)):
            with inductor_config.patch(graph_partition=parts):
                found[name] = asdict(_cuda_graph_case(fn, device))
        rows.append({"case": fn.__name__, "source": textwrap.dedent(inspect.getsource(fn)), **found})
    return rows


def _cuda_graph_case(fn: Callable[..., Tensor], device: str) -> ModeCost:
    x, y = _random(device, 256, 256), _random(device, 256, 256) / 16
    scale = [torch.tensor(2.0)] * (fn is with_a_cpu_scalar)  # no dimension: a GPU tensor may be multiplied by it
    lengths = (128, 192, 256) if fn is at_three_lengths else (256,)

    def step(compiled: Callable[..., Any]) -> None:
        with torch.no_grad():
            for length in lengths:
                compiled(x[:length], y, *scale)

    return _or_stopped(fn, x, y, mode="reduce-overhead", step=step)
