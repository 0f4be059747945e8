"""Single operations over a dimension that is split: what XLA sends for each, what DTensor does, and is it right?

The same numbers go to both, and one process's torch says what is right. XLA sees the whole operation and writes each
device's program anew; DTensor has a rule for the operator, or gathers, or refuses, or is wrong.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from compile_lab.devices import ranks as gangs
from compile_lab.devices.dtensor import FREE, PAID, Judge, PlacedCall, Ruling
from compile_lab.doors import check_whole, door
from compile_lab.simulator.collectives import Collective

from .gspmd import AXIS, Partitioned, jax_here, partitioned
from .gspmd_hlo import totals


@dataclass(frozen=True)
class Operation:
    """One operation on ``devices``: XLA's program and DTensor's ruling, on the same input split along ``word``.

    ``xla_error`` is the largest difference from torch in one process, of values of the size of 1.
    """

    name: str
    word: str
    devices: int
    xla: Partitioned = field(repr=False)
    xla_error: float
    dtensor: Ruling

    @property
    def xla_right(self) -> bool:
        return self.xla_error < 1e-4

    @property
    def xla_sent(self) -> tuple[Collective, ...]:
        """XLA's collectives, those of a single number included."""
        return totals(self.xla.sent, smallest=1)

    @property
    def xla_sent_nbytes(self) -> int:
        """Bytes that a device sends for `xla_sent`, on a ring."""
        return sum(each.sent_nbytes for each in self.xla_sent)

    @property
    def dtensor_sent_nbytes(self) -> int | None:
        """The same of DTensor; None where it gives no result or a wrong one."""
        return None if self.dtensor_nbytes is None else self.dtensor.sent_nbytes

    @property
    def dtensor_nbytes(self) -> int | None:
        """Bytes of the whole tensors that DTensor sends; None where it gives no result or a wrong one."""
        if self.dtensor.kind not in (FREE, PAID):
            return None
        return sum(each.payload_nbytes for each in self.dtensor.sent)


@dataclass(frozen=True)
class _Pair:
    """An operation in torch and in JAX. ``more`` are further inputs, whole on every device."""

    torch: Callable[..., Tensor]
    jax: Callable[..., Any]
    word: str = "S(0)"
    input: str = "matrix"
    more: tuple[str, ...] = ()
    gradient: bool = False


def _inputs() -> dict[str, Tensor]:
    chance = torch.Generator().manual_seed(0)
    targets = torch.arange(64) % 32
    targets[:40] = -100
    return {
        "matrix": torch.randn(64, 32, generator=chance),
        "image": torch.randn(4, 8, 16, 16, generator=chance),
        "filters": torch.randn(8, 8, 3, 3, generator=chance) / 8,
        "targets": targets,
        "other": torch.randn(64, 32, generator=chance),
    }


def _zero_column(x: Tensor) -> Tensor:
    x[:, 1].zero_()
    return x


def _pairs() -> dict[str, _Pair]:
    """By name. The right-hand functions are called with jax in place."""
    jax = jax_here
    conv = lambda x, w: F.conv2d(x, w, padding=1)  # noqa: E731
    conv_xla = lambda x, w: jax().lax.conv_general_dilated(x, w, (1, 1), "SAME")  # noqa: E731

    def pool(size: int, stride: int, padding: str) -> Callable[[Any], Any]:
        window, steps = (1, 1, size, size), (1, 1, stride, stride)
        return lambda x: jax().lax.reduce_window(x, -float("inf"), jax().lax.max, window, steps, padding)

    def cross_entropy(scores: Any, targets: Any) -> Any:
        jnp, kept = jax().numpy, targets >= 0
        picked = jnp.take_along_axis(jax().nn.log_softmax(scores), jnp.where(kept, targets, 0)[:, None], 1)[:, 0]
        return -jnp.where(kept, picked, 0).sum() / kept.sum()

    lse = lambda x: jax().nn.logsumexp(x, 0, keepdims=True)  # noqa: E731
    return {
        **{f"conv2d 3×3, S({dim})": _Pair(conv, conv_xla, f"S({dim})", "image", ("filters",)) for dim in range(4)},
        "max pool 3×3, stride 1": _Pair(lambda x: F.max_pool2d(x, 3, 1, 1), pool(3, 1, "SAME"), "S(2)", "image"),
        "max pool 2×2, stride 2": _Pair(lambda x: F.max_pool2d(x, 2), pool(2, 2, "VALID"), "S(2)", "image"),
        "logsumexp, keepdim": _Pair(lambda x: x.logsumexp(0, keepdim=True), lse),
        "logsumexp(0), S(1)": _Pair(lambda x: x.logsumexp(0, keepdim=True), lse, "S(1)"),
        "softmax": _Pair(lambda x: x.softmax(0), lambda x: jax().nn.softmax(x, 0)),
        "cumsum": _Pair(lambda x: x.cumsum(0), lambda x: jax().numpy.cumsum(x, 0)),
        "sort": _Pair(lambda x: x.sort(0)[0], lambda x: jax().numpy.sort(x, 0)),
        "top 2": _Pair(lambda x: x.topk(2, 0)[0], lambda x: jax().lax.top_k(x.T, 2)[0].T),
        "argmax": _Pair(lambda x: x.argmax(0), lambda x: jax().numpy.argmax(x, 0)),
        # torch's median of an even number is the lower of the middle two
        "median": _Pair(lambda x: x.median(0)[0], lambda x: jax().numpy.sort(x, 0)[31]),
        "norm(inf)": _Pair(lambda x: x.norm(float("inf")), lambda x: abs(x).max()),
        "x[3:40]": _Pair(lambda x: x[3:40], lambda x: x[3:40]),
        "x[:, 1] = 0, S(1)": _Pair(_zero_column, lambda x: x.at[:, 1].set(0), "S(1)"),
        "roll by 3": _Pair(lambda x: x.roll(3, 0), lambda x: jax().numpy.roll(x, 3, 0)),
        "flip": _Pair(lambda x: x.flip(0), lambda x: x[::-1]),
        "reshape to (32, 64)": _Pair(lambda x: x.reshape(32, 64), lambda x: x.reshape(32, 64)),
        "reshape to (2048,)": _Pair(lambda x: x.reshape(-1), lambda x: x.reshape(-1)),
        "cross entropy, padded": _Pair(F.cross_entropy, cross_entropy, more=("targets",)),
        "gradient of mse_loss": _Pair(
            F.mse_loss, lambda x, y: jax().grad(lambda x: ((x - y) ** 2).mean())(x), more=("other",), gradient=True
        ),
        "mean of five rows": _Pair(lambda x: (x[:5] * 2).mean(), lambda x: (x[:5] * 2).mean()),
    }


@door
def operations(devices: int = 4) -> tuple[Operation, ...]:
    """Each operation, by XLA on ``devices`` and by DTensor on as many real ranks. Raises as `jax_here`."""
    check_whole("devices", devices, 2, 8)
    with tempfile.TemporaryDirectory(prefix="operations-") as folder:
        rulings = gangs.run(_rulings, devices, folder, timeout=240, echo=False)[0]
    return tuple(_operation(name, pair, devices, rulings[name]) for name, pair in _pairs().items())


def _rulings(folder: str) -> dict[str, Ruling]:
    judge, inputs, found = Judge(30.0, folder), _inputs(), {}
    for name, pair in _pairs().items():
        args = tuple(inputs[each].clone() for each in (pair.input, *pair.more))
        layout = (pair.word, *["R"] * len(pair.more))
        found[name] = judge.ruling(PlacedCall(pair.torch, args, layout, gradient=pair.gradient, operator=name))
    return found


def _operation(name: str, pair: _Pair, devices: int, ruling: Ruling) -> Operation:
    program, args, tensors = _compiled(pair, devices)
    wanted = _alone(pair, tensors)
    got = torch.tensor(jax_here().device_get(program.run(*args)).tolist())
    if got.shape != wanted.shape:
        raise ValueError(f"{name}: XLA's result is {tuple(got.shape)} and torch's {tuple(wanted.shape)}")
    return Operation(name, pair.word, devices, program, float((got - wanted).abs().max()), ruling)


def _compiled(pair: _Pair, devices: int) -> tuple[Partitioned, list[Any], list[Tensor]]:
    """XLA's program for an operation, its arguments, and the same as tensors."""
    inputs = _inputs()
    tensors = [inputs[each].clone() for each in (pair.input, *pair.more)]
    args = [jax_here().numpy.asarray(each.numpy()) for each in tensors]
    layout = (pair.word, *["R"] * len(pair.more))
    return partitioned(pair.jax, args, layout, mesh={AXIS: devices}), args, tensors


def xla_operations(devices: int) -> Iterator[tuple[str, Partitioned]]:
    """Each operation's name and XLA's program for it; nothing is run."""
    for name, pair in _pairs().items():
        yield name, _compiled(pair, devices)[0]


def _alone(pair: _Pair, tensors: list[Tensor]) -> Tensor:
    if not pair.gradient:
        return pair.torch(*tensors)
    first = tensors[0].requires_grad_()
    return torch.autograd.grad(pair.torch(first, *tensors[1:]), first)[0]
