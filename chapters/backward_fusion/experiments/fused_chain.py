"""What does fusing the backward give, and where does it cost? LayerNorm(GELU(xW + b)) and others, eager and compiled.

Each case is timed in both directions apart, and the backward of one step at a time: a sample runs some forwards, waits
for them, and times their backwards in a row. What a backward reads was then written long before, as in a deep model.
On a GPU each kernel's own time is taken too, so that a loss can be told to the kernel that causes it.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab._torch.inductor import launched_kernels
from compile_lab.capture import NotCompiledError, compilation
from compile_lab.inductor.lowering import collecting
from compile_lab.measure.allocator import peak
from compile_lab.measure.judge import relative_error
from compile_lab.measure.kernels import kernel_times
from compile_lab.measure.timing import fp32_meant, prepared_samples_us, samples_us, summary_us

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
TWO_PASSES = {"triton.mix_order_reduction": False}
TUNED = {"triton.mix_order_reduction_autotune_split_size": True}
VARIANTS: dict[str, dict[str, Any]] = {"compiled": {}, "two passes": TWO_PASSES, "tuned": TUNED}
"""Inductor's options. By default a tall layer norm's backward reduces along rows and columns in one kernel; with "two
passes" in a kernel for each; "tuned" tries how many rows a block of the one kernel takes."""
SAMPLES = {"cuda": 15, "cpu": 5}


ERRORS_UP_TO = 16_384  # rows of which the gradients are compared with float64


def norm_of_gelu(d_in: int, d_out: int) -> nn.Module:
    """LayerNorm(GELU(xW + b)), from the modules that everybody uses."""
    return nn.Sequential(nn.Linear(d_in, d_out), nn.GELU(), nn.LayerNorm(d_out))


def norm_of_tanh_gelu(d_in: int, d_out: int) -> nn.Module:
    """The same with GELU's approximation: one ``tanh`` in place of ``erf`` and ``exp``."""
    return nn.Sequential(nn.Linear(d_in, d_out), nn.GELU("tanh"), nn.LayerNorm(d_out))


def norm_of_relu(d_in: int, d_out: int) -> nn.Module:
    """The same reads, writes and reductions, and no function to compute: a comparison in place of GELU."""
    return nn.Sequential(nn.Linear(d_in, d_out), nn.ReLU(), nn.LayerNorm(d_out))


def gelu(d_in: int, d_out: int) -> nn.Module:
    """GELU without the norm: its arithmetic in a kernel that reduces nothing."""
    return nn.Sequential(nn.Linear(d_in, d_out), nn.GELU())


class ResidualDropout(nn.Module):
    """The end of a transformer's block: ``norm(x + dropout(linear(h)))``."""

    def __init__(self, d_in: int, d_out: int, rate: float = 0.1) -> None:
        super().__init__()
        self.linear, self.dropout, self.norm = nn.Linear(d_in, d_out), nn.Dropout(rate), nn.LayerNorm(d_out)

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        return self.norm(x + self.dropout(self.linear(h)))


CHAINS: dict[str, Callable[[int, int], nn.Module]] = {
    "norm of gelu": norm_of_gelu,
    "norm of tanh gelu": norm_of_tanh_gelu,
    "norm of relu": norm_of_relu,
    "gelu": gelu,
    "residual": ResidualDropout,
}


@dataclass(frozen=True)
class Case:
    """One function and size: ``rows`` × ``d_in`` goes in, ``rows`` × ``d_out`` comes out."""

    chain: str
    rows: int
    d_in: int
    d_out: int
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.rows} × {self.d_in} → {self.d_out}, {self.dtype}"

    def built(self, device: str) -> tuple[nn.Module, tuple[Tensor, ...], Tensor]:
        """The module, its inputs, and a gradient for its output; seeded, all leaves want a gradient."""
        torch.manual_seed(0)
        made: dict[str, Any] = {"device": device, "dtype": DTYPES[self.dtype]}
        module = CHAINS[self.chain](self.d_in, self.d_out).to(**made)
        widths = [self.d_in, self.d_out][: 1 + (self.chain == "residual")]
        inputs = tuple(torch.randn(self.rows, width, **made).requires_grad_() for width in widths)
        return module, inputs, torch.randn(self.rows, self.d_out, **made)


EXAMINED = Case("norm of gelu", 16384, 1024, 4096, "bf16")
"""The case that is looked into kernel by kernel; its size is tuned."""


def measure_case(case: Case, device: str) -> dict[str, Any]:
    """One case: ``chain``, ``rows``, ``d_in``, ``d_out``, ``dtype``, ``matmul`` and ``variants``.

    ``matmul``: the matmuls of each direction by themselves. ``variants``: eager, compiled, and where compiling made
    one kernel of both reductions, "two passes" without that (in the size that is examined also "tuned"). Of each,
    ``forward`` and ``backward``: ``median_us``, ``low_us``, ``high_us`` and ``kernels`` (empty without a GPU);
    ``held_nbytes`` between the two (None without a GPU); ``generated``: the launches of compiled code with the bytes
    that Inductor expects them to move; ``loaded``: what the driver says of the Triton kernels; ``errors``: of each
    gradient against float64, relative in the Euclidean norm.
    """
    module, inputs, gradient = case.built(device)
    exact = _exact_gradients(case, device)
    variants = {"eager": _measured(module, inputs, gradient, device, exact)}
    for name, options in VARIANTS.items():
        if name != "compiled" and not _reduced_both_ways(variants["compiled"]):
            break
        if name == "tuned" and (case.rows, case.d_out) != (EXAMINED.rows, EXAMINED.d_out):
            continue
        compiled, made = compile_both(module, inputs, gradient, options)
        variants[name] = _measured(compiled, inputs, gradient, device, exact) | made
        reset_dynamo()
    sizes = {name: getattr(case, name) for name in ("chain", "rows", "d_in", "d_out", "dtype")}
    return {**sizes, "matmul": _matmuls(case, device), "variants": variants}


def leaves(module: nn.Module, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """All that a gradient is wanted for: parameters, then inputs."""
    return [*module.parameters(), *inputs]


def compile_both(
    module: nn.Module, inputs: tuple[Tensor, ...], gradient: Tensor, options: Mapping[str, Any]
) -> tuple[nn.Module, dict[str, Any]]:
    """A module compiled for these inputs, forward and backward having run once, and what Inductor made of it.

    Raises NotCompiledError (a RuntimeError) if there is not one compiled graph for each direction, or none ran.
    """
    reset_dynamo()
    before = Counter(map(_frozen, launched_kernels()))
    with compilation(use_caches=True) as log, collecting() as graphs, fp32_meant():
        compiled = torch.compile(module, dynamic=False, options=dict(options))
        assert isinstance(compiled, nn.Module)  # as of any module
        torch.autograd.grad(compiled(*inputs), leaves(module, inputs), gradient)
    log.require_compiled()
    if [graph.direction for graph in graphs] != ["forward", "backward"]:
        raise NotCompiledError(f"compiling made {len(graphs)} graphs of it, not one forward and one backward")
    generated = {graph.direction: [_launch(kernel) for kernel in graph.kernels] for graph in graphs}
    loaded = Counter(map(_frozen, launched_kernels())) - before
    return compiled, {"generated": generated, "loaded": [_thawed(one) for one in loaded]}


def _launch(kernel: Any) -> dict[str, Any]:
    ops = sorted({origin.op.split(".")[1] for origin in kernel.computed if "." in origin.op})
    partial = "workspace" in kernel.call
    return {
        "name": kernel.name, "language": kernel.language, "nbytes": kernel.nbytes, "ops": ops, "both_ways": partial
    }  # fmt: skip


def _frozen(kernel: dict[str, Any]) -> tuple:
    return tuple((name, tuple(value.items()) if isinstance(value, dict) else value) for name, value in kernel.items())


def _thawed(kernel: tuple) -> dict[str, Any]:
    named = {name: dict(value) if isinstance(value, tuple) else value for name, value in kernel}
    del named["signature"]
    return named


def _reduced_both_ways(compiled: dict[str, Any]) -> bool:
    return any(launch["both_ways"] for launch in compiled["generated"]["backward"])


def _measured(
    module: nn.Module, inputs: tuple[Tensor, ...], gradient: Tensor, device: str, exact: list[Tensor]
) -> dict[str, Any]:
    wanted = leaves(module, inputs)

    def forward() -> Tensor:
        return module(*inputs)

    def backward(result: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(result, wanted, gradient)

    held = _held_nbytes(forward, device)
    most = _fitting(held)
    samples = SAMPLES[device]
    return {
        "forward": summary_us(samples_us(forward, device, samples))
        | {"kernels": kernel_times(lambda _: forward(), [None] * 5)},
        "backward": summary_us(prepared_samples_us(forward, backward, device, samples, most))
        | {"kernels": kernel_times(backward, [forward() for _ in range(min(5, most))])},
        "held_nbytes": held,
        "errors": _errors(module, inputs, backward(forward()), exact),
    }


def gradient_errors(case: Case, device: str) -> dict[str, dict[str, float]]:
    """The error of each gradient against float64, eager and compiled: relative, in the Euclidean norm.

    The float64 gradients are those of the same rounded inputs and parameters. Raises NotCompiledError (a
    RuntimeError) if compiled code did not run, ValueError for a case without exact gradients: random, or large.
    """
    module, inputs, gradient = case.built(device)
    if not (exact := _exact_gradients(case, device)):
        raise ValueError(f"{case.name} is compared with nothing: take no dropout and at most {ERRORS_UP_TO} rows")
    compiled, _ = compile_both(module, inputs, gradient, {})
    ways = {"eager": module, "compiled": compiled}
    found = {name: torch.autograd.grad(way(*inputs), leaves(way, inputs), gradient) for name, way in ways.items()}
    reset_dynamo()
    return {name: _errors(module, inputs, each, exact) for name, each in found.items()}


def _errors(
    module: nn.Module, inputs: tuple[Tensor, ...], made: Iterable[Tensor], exact: list[Tensor]
) -> dict[str, float]:
    if not exact:
        return {}
    errors = (float(f"{relative_error(one, right):.3g}") for one, right in zip(made, exact, strict=True))
    return dict(zip(_names(module, inputs), errors, strict=True))


def _names(module: nn.Module, inputs: tuple[Tensor, ...]) -> list[str]:
    names = [name.removeprefix("_orig_mod.") for name, _ in module.named_parameters()]
    return names + [f"input {at}" for at in range(len(inputs))]


def _held_nbytes(forward: Callable[[], Tensor], device: str) -> int | None:
    """Bytes that a forward leaves for its backward, the result among them; None without a GPU."""
    with peak(device) as memory:
        result = forward()
    del result
    return memory.held_nbytes


def _fitting(held_nbytes: int | None) -> int:
    """How many forwards may wait for their backward: a quarter of the GPU's free memory."""
    if not held_nbytes:
        return 100
    torch.cuda.empty_cache()
    return max(1, min(200, torch.cuda.mem_get_info()[0] // (4 * held_nbytes)))


def _exact_gradients(case: Case, device: str) -> list[Tensor]:
    """The gradients in float64, from the same (rounded) values; none for a random function or a large one."""
    if case.chain == "residual" or case.rows > ERRORS_UP_TO:
        return []
    module, inputs, gradient = case.built(device)
    module = copy.deepcopy(module).double()
    inputs = tuple(one.detach().double().requires_grad_() for one in inputs)
    return list(torch.autograd.grad(module(*inputs), leaves(module, inputs), gradient.double()))


def _matmuls(case: Case, device: str) -> dict[str, Any]:
    """The linear layer's matmuls by themselves, on tensors of the same shapes."""
    module, inputs, gradient = case.built(device)
    linear = module.get_submodule("linear" if case.chain == "residual" else "0")
    assert isinstance(linear, nn.Linear)
    x, w, b, dy = inputs[0].detach(), linear.weight.detach(), linear.bias.detach(), gradient
    calls = {"forward": lambda: torch.addmm(b, x, w.T), "backward": lambda: (torch.mm(dy, w), torch.mm(dy.T, x))}
    return {name: summary_us(samples_us(call, device, SAMPLES[device])) for name, call in calls.items()}
