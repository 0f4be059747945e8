"""Gradient accumulation: does adding to ``.grad`` cost a launch and a pass over memory for each parameter, or nothing?

Autograd writes a gradient into a new tensor, and then adds that to ``.grad`` if there is one. Three ways to fuse the
addition are compared with that: none there to add to (a first micro-batch), a backward that is captured with its
accumulation (compiled autograd), and, by hand, a matrix product that adds to what is there.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from compile_lab._torch.dynamo import compiled_backward, reset_dynamo
from compile_lab.capture import NotCompiledError, compilation
from compile_lab.measure.kernels import kernel_times
from compile_lab.measure.timing import prepared_samples_us, samples_us, spread_us

from .fused_chain import DTYPES, SAMPLES, Case, compile_both

CAPTURED = "backward captured whole"
KEPT = 20  # forwards that wait for their backward


@dataclass(frozen=True)
class Accumulated:
    """A micro-batch of ``rows``, and the layer whose gradients are added up."""

    rows: int
    d_in: int
    d_out: int
    dtype: str


ACCUMULATED = {
    "cuda": [Accumulated(512, 1024, 4096, "bf16"), Accumulated(8192, 1024, 4096, "bf16")],
    "cpu": [Accumulated(16, 32, 64, "fp32")],
}


def accumulated(case: Accumulated, device: str) -> dict[str, Any]:
    """One size: ``rows``, ``d_in``, ``d_out``, ``dtype``; ``backward`` and ``product``: a row for each way.

    A row has ``way``, ``median_us``, ``low_us``, ``high_us``, and ``kernels`` (empty without a GPU). ``backward`` is
    that of LayerNorm(GELU(xW + b)) into ``.grad``; ``product`` the weight's gradient alone. A way that failed has
    ``stopped``, its reason, and no times.
    Raises NotCompiledError (a RuntimeError) if compiled code did not run.
    """
    sizes = {name: getattr(case, name) for name in ("rows", "d_in", "d_out", "dtype")}
    return {**sizes, "backward": _backwards(case, device), "product": _products(case, device)}


def _backwards(case: Accumulated, device: str) -> list[dict[str, Any]]:
    module, inputs, gradient = Case("norm of gelu", case.rows, case.d_in, case.d_out, case.dtype).built(device)
    rows = []
    for compiled in (False, True):
        forward = compile_both(module, inputs, gradient, {})[0] if compiled else module
        name = "compiled" if compiled else "eager"
        rows.append(_timed(f"{name}, no .grad yet", forward, inputs, gradient, device, forget=True))
        rows.append(_timed(f"{name}, added to .grad", forward, inputs, gradient, device))
    try:
        with whole_backward() as way:
            rows.append(_timed(CAPTURED, forward, inputs, gradient, device, way=way))
    except NotCompiledError:
        raise
    except Exception as error:  # a feature that torch calls experimental: its failure is a result
        rows.append({"way": CAPTURED, "stopped": f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"})
    reset_dynamo()
    return rows


def _timed(
    name: str,
    forward: nn.Module,
    inputs: tuple[Tensor, ...],
    gradient: Tensor,
    device: str,
    forget: bool = False,
    way: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> dict[str, Any]:
    def backward(result: Tensor) -> None:
        inputs[0].grad = None  # an activation's gradient is not accumulated
        if forget:
            for parameter in forward.parameters():
                parameter.grad = None
        with way():
            result.backward(gradient)

    def prepare() -> Tensor:
        return forward(*inputs)

    spread = spread_us(prepared_samples_us(prepare, backward, device, SAMPLES[device], KEPT))
    return {"way": name, **spread, "kernels": kernel_times(backward, [prepare() for _ in range(5)])}


@contextlib.contextmanager
def whole_backward() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Yields a context for ``result.backward()`` in which it is captured and compiled together with its accumulation.

    Raises NotCompiledError at the end if nothing that was captured ran compiled.
    """
    compiler = torch.compile(dynamic=False)
    with compilation(use_caches=True) as log:
        yield lambda: compiled_backward(compiler)
    log.require_compiled()


def _products(case: Accumulated, device: str) -> list[dict[str, Any]]:
    made = {"device": device, "dtype": DTYPES[case.dtype]}
    x, dy = torch.randn(case.rows, case.d_in, **made), torch.randn(case.rows, case.d_out, **made)
    grad = torch.zeros(case.d_out, case.d_in, **made)
    ways = {
        "the product": lambda: torch.mm(dy.T, x),
        "the product, then added": lambda: grad.add_(torch.mm(dy.T, x)),
        "added by the product": lambda: torch.addmm(grad, dy.T, x, out=grad),
    }
    return [
        {"way": way, **spread_us(samples_us(call, device, SAMPLES[device]))}
        | {"kernels": kernel_times(lambda _, call=call: call(), [None] * 5)}
        for way, call in ways.items()
    ]
