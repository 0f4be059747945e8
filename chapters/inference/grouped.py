"""Mixture of experts: tokens sorted by expert, each group multiplied by its expert's matrix. A loop, or one matmul.

``torch.nn.functional.grouped_mm(rows, weights, offs=ends)``: rows [tokens, k] in the order of their expert, weights
[experts, k, n], ends [experts], int32, the row at which each group ends. It checks the dtype of ``ends`` and trusts
what is in it.
"""

import re
import tempfile
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab._torch.inductor import generated_sources, inductor_config
from compile_lab._torch.packages import package_sources, packaged, unpacked
from compile_lab.doors import check_whole, door
from compile_lab.measure.judge import relative_error

from ..experiment import reason

LAYER_WAYS = ("loop", "grouped")
LAYER_MODES = ("eager", "compiled", "C++ wrapper", "AOTInductor")
MOST_TOKENS = 1 << 20
UNTIMED = {"aot_inductor.compile_wrapper_opt_level": "O0"}
"""Of a package that answers once, and is not timed: a second less of g++."""


class ExpertLayer(nn.Module):
    """GELU(x Up) Down with the matrices of one expert a token, which a router chooses: [tokens, width] -> the same.

    ``way`` is "loop" (an expert after the other, on its rows) or "grouped" (two matmuls over all experts at once).
    Raises ValueError for another way, or for sizes that are no multiple of 16 bytes, which grouped_mm wants.
    """

    def __init__(
        self, width: int, hidden: int, experts: int, way: str = "grouped", dtype: torch.dtype = torch.bfloat16
    ) -> None:
        super().__init__()
        if way not in LAYER_WAYS:
            raise ValueError(f"way is {way!r}: it is {' or '.join(map(repr, LAYER_WAYS))}")
        check_whole("experts", experts)
        for name, size in (("width", width), ("hidden", hidden)):
            check_whole(name, size)
            if size * dtype.itemsize % 16:
                raise ValueError(f"{name}={size} of {dtype}: a row must be a multiple of 16 bytes; round it up")
        self.way, self.experts = way, experts
        self.router = nn.Linear(width, experts, bias=False, dtype=dtype)
        self.up = nn.Parameter(torch.randn(experts, width, hidden, dtype=dtype) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width, dtype=dtype) / hidden**0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.by(self.router(x).argmax(1), x)

    def by(self, expert: Tensor, x: Tensor) -> Tensor:
        """The same for tokens whose ``expert`` [tokens] was chosen before."""
        order = expert.argsort(stable=True)
        chosen = F.one_hot(expert, self.experts).sum(0)
        ends = chosen.cumsum(0).to(torch.int32)
        y = self._looped(x[order], ends) if self.way == "loop" else self._grouped(x[order], ends)
        return torch.zeros_like(x).index_copy(0, order, y)

    def _grouped(self, x: Tensor, ends: Tensor) -> Tensor:
        return F.grouped_mm(F.gelu(F.grouped_mm(x, self.up, offs=ends)), self.down, offs=ends)

    def _looped(self, x: Tensor, ends: Tensor) -> Tensor:
        parts, begin = [], 0
        for index, end in enumerate(ends.tolist()):
            parts.append(F.gelu(x[begin:end] @ self.up[index]) @ self.down[index])
            begin = end
        return torch.cat(parts)


@dataclass(frozen=True)
class LayerRun:
    """One way to run the layer: its error against float64, relative to the largest value, and what is called for the
    matmul; ``stopped`` says why, if it came to no end.
    """

    way: str
    mode: str
    tokens: int
    error: float | None = None
    calls: tuple[str, ...] = ()
    through_proxy: int = 0
    """How many calls of a package's C++ go through its proxy executor: what has no C function of its own."""
    stopped: str = ""


@door
def layer_runs(
    tokens: int = 256,
    experts: int = 8,
    width: int = 64,
    hidden: int = 128,
    ways: Iterable[str] = LAYER_WAYS,
    modes: Iterable[str] = LAYER_MODES,
) -> list[LayerRun]:
    """The layer in bf16 in each way and mode on this CPU, judged by float64; what is refused is told.

    The loop compiles too, for its cuts become unknown sizes, one matmul an expert: half a minute a mode, where
    the grouped layer takes four seconds, and ten for a package.

    Raises ValueError for an unknown way or mode, and for sizes below 1.
    """
    check_whole("tokens", tokens, least=2, most=MOST_TOKENS)
    ways, modes = list(ways), list(modes)
    for name, given, known in (("way", ways, LAYER_WAYS), ("mode", modes, LAYER_MODES)):
        if unknown := [each for each in given if each not in known]:
            raise ValueError(f"no {name} is called {unknown[0]!r}; there is {', '.join(map(repr, known))}")
    runs = []
    for way, mode in [(way, mode) for way in ways for mode in modes]:
        model, x = subject(width, hidden, experts, tokens, way)
        try:
            runs.append(_run(model, x, mode))
        except Exception as error:  # what cannot be compiled or exported is part of the answer
            runs.append(LayerRun(way, mode, tokens, stopped=reason(error)))
        finally:
            reset_dynamo()
    return runs


def subject(
    width: int, hidden: int, experts: int, tokens: int, way: str, device: str = "cpu"
) -> tuple[ExpertLayer, Tensor]:
    """The layer, and tokens for it: the same numbers for every way."""
    torch.manual_seed(0)
    model = ExpertLayer(width, hidden, experts, way).eval().requires_grad_(False)
    x = torch.randn(tokens, width).to(torch.bfloat16)
    return model.to(device), x.to(device)


@torch.no_grad()
def judged_by_float64(model: ExpertLayer, x: Tensor, y: Tensor, most: int = 512) -> float:
    """The largest error of y [tokens, width] among its first rows, relative to the largest true value.

    The true values: the router's choice as made in bf16, and all else in float64, expert by expert.
    """
    expert = model.router(x).argmax(1)[:most]
    exact = torch.empty(len(expert), x.shape[1], dtype=torch.float64, device=x.device)
    for index in range(model.experts):
        mine = expert == index
        if mine.any():
            exact[mine] = F.gelu(x[:most][mine].double() @ model.up[index].double()) @ model.down[index].double()
    return relative_error(y[:most], exact)


@torch.no_grad()
def _run(model: ExpertLayer, x: Tensor, mode: str) -> LayerRun:
    reset_dynamo()
    if mode == "AOTInductor":
        return _packaged_run(model, x)
    answers: list[Tensor] = []
    fn = model if mode == "eager" else torch.compile(model, fullgraph=True)
    wrapper = inductor_config.patch(cpp_wrapper=True) if mode == "C++ wrapper" else nullcontext()
    with wrapper, inductor_config.patch(force_disable_caches=False):
        sources = generated_sources(lambda: answers.append(fn(x))) if mode != "eager" else []
    error = judged_by_float64(model, x, answers[0] if answers else model(x))
    return LayerRun(model.way, mode, len(x), error, product_calls(sources))


def _packaged_run(model: ExpertLayer, x: Tensor) -> LayerRun:
    tokens = torch.export.Dim("tokens", min=2, max=MOST_TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        exported = torch.export.export(model, (x,), dynamic_shapes=({0: tokens},))
        file = packaged(exported, Path(folder) / "experts.pt2", UNTIMED)
        y, sources = unpacked(file)(x), package_sources(file)
    proxied = sum(source.count("aoti_torch_proxy_executor_call_function(") for source in sources)
    error = judged_by_float64(model, x, y)
    return LayerRun(model.way, "AOTInductor", len(x), error, product_calls(sources), proxied)


def product_calls(sources: Iterable[str]) -> tuple[str, ...]:
    """The names under which generated code calls a grouped matmul, in order, each once."""
    found = re.findall(r"(?<![\w.])[\w.:]*_grouped_mm(?:\.default)?(?=\()", "\n".join(sources))
    return tuple(dict.fromkeys(found))
