"""Calls on DTensors that give another result than one process, and no exception: torch 2.13, each a few lines.

Each function runs on a rank of two or more, and returns (what the ranks have, what one process has), as tensors. A
docstring says where in ``torch.distributed.tensor`` it goes wrong. `confirmed` runs all of them; a test asks for each.
They were found by `audit`, or by running torch's own programs, and are no list of all there are.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, distribute_tensor, init_device_mesh

from . import ranks as gangs
from .alarms import difference
from .placements import parts, placement

Answers = tuple[Tensor, Tensor]
Placed = tuple[Tensor, str]
ERRORS: dict[str, Callable[[Any], Answers]] = {}
"""By name, the programs: each takes the mesh."""


def confirmed(ranks: int = 2, timeout: float = 60.0) -> dict[str, str]:
    """By name, how each program's answer differs from one process's, on any of the ranks; "" if it no longer does.

    An exception, which is an answer that nobody overlooks, is told as ``refused: …``.
    """
    told = gangs.run(_confirmed, ranks, timeout=timeout, echo=False)
    return {name: next((each[name] for each in told if each[name]), "") for name in ERRORS}


def _confirmed() -> dict[str, str]:
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    found = {}
    for name, program in ERRORS.items():
        try:
            found[name] = difference(*program(mesh))
        except Exception as error:
            found[name] = f"refused: {type(error).__name__}: {str(error).strip().splitlines()[0][:120]}"
    return found


def _silent(program: Callable[[Any], Answers]) -> Callable[[Any], Answers]:
    ERRORS[program.__name__] = program
    return program


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def _on(mesh: Any, x: Tensor, word: str) -> DTensor:
    kind = placement(word)
    if isinstance(kind, Partial):
        return DTensor.from_local(parts(x, word, mesh.size())[mesh.get_local_rank()], mesh, [kind], run_check=False)
    return distribute_tensor(x, mesh, [kind], src_data_rank=None)


def _value(mesh: Any, function: Callable[..., Tensor], *placed: Placed) -> Answers:
    return function(*(_on(mesh, *each) for each in placed)).full_tensor(), function(*(x for x, _ in placed))


def _gradient(mesh: Any, function: Callable[..., Tensor], *placed: Placed) -> Answers:
    """Of the first tensor, for a function whose result is one number."""

    def of(inputs: list[Tensor]) -> Tensor:
        first = inputs[0].detach().requires_grad_()
        (found,) = torch.autograd.grad(function(first, *inputs[1:]), first)
        return found

    return of([_on(mesh, *each) for each in placed]).full_tensor(), of([x for x, _ in placed])


def _shared(mesh: Any, *names: int) -> Tensor:
    """Random numbers whose first side the ranks share evenly: twice as many rows as ranks."""
    return _random(2 * mesh.size(), *names)


def _ascending(mesh: Any) -> Tensor:
    """Numbers the largest of which the last rank holds."""
    return torch.arange(1.0, 6.0 * mesh.size() + 1, dtype=torch.float64).reshape(-1, 3)


def _padded(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, padding=1)


@_silent
def mse_loss_gradient(mesh: Any) -> Answers:
    """As many times too large as there are ranks; the loss itself is right.

    ``mse_loss_backward`` has no rule. ``_decompositions.DecompShardingStrategy`` traces its decomposition on a mesh of
    one device to learn where the result is; then the operator itself runs on the shard, and divides by the shard's
    number of elements.
    """
    x = _shared(mesh, 3)
    return _gradient(mesh, F.mse_loss, (x, "S(0)"), (x * 0.5 + 1, "S(0)"))


@_silent
def smooth_l1_loss_gradient(mesh: Any) -> Answers:
    """As `mse_loss_gradient`: ``smooth_l1_loss_backward`` divides by the shard's number of elements."""
    x = _shared(mesh, 3)
    return _gradient(mesh, F.smooth_l1_loss, (x, "S(0)"), (x * 0.5 + 1, "S(0)"))


@_silent
def huber_loss_gradient(mesh: Any) -> Answers:
    """As `mse_loss_gradient`: ``huber_loss_backward`` divides by the shard's number of elements."""
    x = _shared(mesh, 3)
    return _gradient(mesh, F.huber_loss, (x, "S(0)"), (x * 0.5 + 1, "S(0)"))


@_silent
def soft_margin_loss_gradient(mesh: Any) -> Answers:
    """As `mse_loss_gradient`: ``soft_margin_loss_backward`` divides by the shard's number of elements."""
    x = _shared(mesh, 3)
    return _gradient(mesh, F.soft_margin_loss, (x, "S(0)"), (x.flip(0).sign(), "S(0)"))


@_silent
def mse_loss_of_uneven_shards(mesh: Any) -> Answers:
    """A mean of the shards' means, which is the mean only of shards of one size.

    ``_decompositions.DecompShardingStrategy._get_fake_mesh``: on a mesh of one device every size is shared evenly, so
    what the rule of ``mean`` refuses of uneven shards passes.
    """
    x = _random(2 * mesh.size() + 1, 3)
    return _value(mesh, F.mse_loss, (x, "S(0)"), (x * 0.5 + 1, "S(0)"))


@_silent
def binary_cross_entropy_of_uneven_shards(mesh: Any) -> Answers:
    """As `mse_loss_of_uneven_shards`, by the same trace."""
    x = _random(2 * mesh.size() + 1, 3).sigmoid()
    return _value(mesh, F.binary_cross_entropy, (x, "S(0)"), (x.flip(0), "S(0)"))


@_silent
def cross_entropy_with_padding(mesh: Any) -> Answers:
    """A mean of the shards' means, whose shards have different numbers of targets that count.

    ``_ops/_math_ops.nll_loss_forward_strategy`` answers ``P(avg)`` and asks only whether the rows are shared evenly,
    not how many of them have ``ignore_index`` as their target.
    """
    logits, targets = _shared(mesh, 5), torch.arange(2 * mesh.size()) % 5
    targets[0] = -100
    return _value(mesh, F.cross_entropy, (logits, "S(0)"), (targets, "S(0)"))


@_silent
def cross_entropy_with_class_weights(mesh: Any) -> Answers:
    """As `cross_entropy_with_padding`: the shards' sums of weights differ. Upstream: pytorch 185167."""
    logits, targets = _shared(mesh, 5), torch.arange(2 * mesh.size()) % 5
    weights = torch.arange(1.0, 6.0, dtype=torch.float64)
    return _value(mesh, F.cross_entropy, (logits, "S(0)"), (targets, "S(0)"), (weights, "R"))


@_silent
def conv2d_over_height(mesh: Any) -> Answers:
    """Each rank keeps its own rows, and says that they are all.

    ``_tp_conv.convolution_handler`` runs the convolution on the local tensors as they are; the decision's
    ``needs_redistribute``, which says that the input is to be gathered first, it does not look at. Upstream: pytorch
    191926, 186129.
    """
    return _value(
        mesh, lambda x, w: F.conv2d(x, w, padding=1), (_random(2, 4, 8, 8), "S(2)"), (_random(4, 4, 3, 3), "R")
    )


@_silent
def conv2d_over_width(mesh: Any) -> Answers:
    """As `conv2d_over_height`."""
    return _value(
        mesh, lambda x, w: F.conv2d(x, w, padding=1), (_random(2, 4, 8, 8), "S(3)"), (_random(4, 4, 3, 3), "R")
    )


@_silent
def conv2d_of_partial_sums(mesh: Any) -> Answers:
    """As `conv2d_over_height`: the sums are not made, and each rank's part is labelled as the whole."""
    return _value(
        mesh, lambda x, w: F.conv2d(x, w, padding=1), (_random(2, 4, 8, 8), "P(sum)"), (_random(4, 4, 3, 3), "R")
    )


@_silent
def conv2d_of_fewer_images_than_ranks(mesh: Any) -> Answers:
    """As `conv2d_over_height`: one image, sharded by images. A rank without one has an empty result."""
    return _value(mesh, F.conv2d, (_random(1, 4, 8, 8), "S(0)"), (_random(4, 4, 3, 3), "R"))


@_silent
def conv_transpose2d_over_height(mesh: Any) -> Answers:
    """As `conv2d_over_height`."""
    return _value(mesh, F.conv_transpose2d, (_random(2, 4, 8, 8), "S(2)"), (_random(4, 4, 3, 3), "R"))


@_silent
def logsumexp_keepdim(mesh: Any) -> Answers:
    """Columns are sharded, and the label says that rows are.

    ``_ops/_math_ops.logsumexp_strategy`` reads ``keepdim`` from the named arguments; it comes by position, so the rule
    thinks that a dimension went, and counts the shard's down.
    """
    return _value(mesh, lambda x: x.logsumexp(0, keepdim=True), (_random(4, 2 * mesh.size()), "S(1)"))


@_silent
def logsumexp_keepdim_gradient(mesh: Any) -> Answers:
    """As `logsumexp_keepdim`. For two ranks: of more, some raise, and the others wait."""
    return _gradient(mesh, lambda x: x.logsumexp(0, keepdim=True).sum(), (_random(4, 2 * mesh.size()), "S(1)"))


@_silent
def sum_over_no_dimensions(mesh: Any) -> Answers:
    """Each rank's own sum, and a label that says that rows are sharded; of a result that has none.

    ``dim=[]`` means all dimensions to ``sum``. ``_ops/_math_ops._infer_reduction_dims`` takes it as none of them unless
    the tensor has none itself.
    """
    return _value(mesh, lambda x: x.sum(dim=[], keepdim=True), (_shared(mesh, 3), "S(0)"))


@_silent
def amax_gradient(mesh: Any) -> Answers:
    """NaN everywhere but in one place, unless rank 0 holds the largest element.

    The gradient is divided by the number of elements that are the largest, which autograd counts with
    ``sum(dim=[], keepdim=True)``: `sum_over_no_dimensions`. Rank 0's count is taken for all: 0, if it has none.
    """
    return _gradient(mesh, torch.amax, (_ascending(mesh), "S(0)"))


@_silent
def largest_norm_gradient(mesh: Any) -> Answers:
    """NaN everywhere but in one place: the gradient of ``norm(inf)``, as that of `amax_gradient`."""
    return _gradient(mesh, lambda x: x.norm(float("inf")), (_ascending(mesh), "S(0)"))


@_silent
def largest_norm_of_partial_maxima(mesh: Any) -> Answers:
    """The largest of the parts' norms. A part that is low enough has the largest absolute value, and no say.

    ``_ops/_math_ops.vector_norm_strategy`` reduces with ``max`` and so takes ``P(max)`` as it comes, though the norm
    takes absolute values first.
    """
    return _value(mesh, lambda x: x.norm(float("inf")), (_shared(mesh, 3), "P(max)"))


@_silent
def irfft_of_partial_maxima(mesh: Any) -> Answers:
    """A maximum of transforms, which is not the transform of the maximum.

    ``_ops/_tensor_ops.fft_single_dim_strategy`` passes any partial value through, as it may with sums alone.
    """
    return _value(mesh, torch.fft.irfft, (_shared(mesh, 4), "P(max)"))


@_silent
def fill_of_partial_sums(mesh: Any) -> Answers:
    """As many times the number as there are ranks: each fills its part of the sum with it.

    ``_ops/_tensor_ops``: ``fill_`` has ``propagate_single_input_strategy``, which keeps any placement.
    """
    return _on(mesh, _shared(mesh, 3), "P(sum)").fill_(1.0).full_tensor(), torch.ones(2 * mesh.size(), 3).double()


@_silent
def cosine_embedding_loss_over_columns(mesh: Any) -> Answers:
    """Through ``zeros_like`` and the like that are filled on partial sums: `fill_of_partial_sums`."""
    x = _random(4, 2 * mesh.size())
    targets = torch.tensor([1, -1, 1, -1])
    return _value(mesh, F.cosine_embedding_loss, (x, "S(1)"), (x.flip(0), "R"), (targets, "R"))


@_silent
def write_through_a_column(mesh: Any) -> Answers:
    """The write is lost: a column of a tensor whose columns are sharded is not a view but a gathered copy.

    ``_ops/_tensor_ops.select_int_strategy`` replicates the dimension that it takes from.
    """
    x = _random(4, 2 * mesh.size())
    mine, alone = _on(mesh, x, "S(1)"), x.clone()
    mine[:, 1].zero_()
    alone[:, 1].zero_()
    return mine.full_tensor(), alone
