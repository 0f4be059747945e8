"""Calls on DTensors that give another result than one process, and no exception: torch 2.13, each a few lines.

Each function runs on a rank of two or more, and returns (what the ranks have, what one process has), as tensors. Its
decorator says where in ``torch.distributed.tensor`` it goes wrong and who has told of it, its docstring why: each cause
was confirmed by a run (`test_silent_causes.py`). `findings` runs all of them. They were found by `audit`, or by running
torch's own programs, and are no list of all there are.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .silent import Answers, Finding, SilentError, gradient, on, random, run_all, value

ERRORS: dict[str, SilentError] = {}
"""By name, the programs and what is known of them."""


_DECOMPOSED = "_decompositions.py: DecompShardingStrategy"
_NLL = "_ops/_math_ops.py: nll_loss_forward_strategy"
_CONV = "_tp_conv.py: convolution_handler"
_DIMS = "_ops/_math_ops.py: _infer_reduction_dims"
_LOGSUMEXP = "_ops/_math_ops.py: logsumexp_strategy"
_ONE_INPUT = "_ops/_tensor_ops.py: propagate_single_input_strategy"


def findings() -> dict[str, Finding]:
    """By name, what each program says on two real ranks."""
    return run_all(ERRORS)


def _silent(call: str, place: str, *reported: int) -> Callable[[Callable[[Any], Answers]], Callable[[Any], Answers]]:
    def keep(program: Callable[[Any], Answers]) -> Callable[[Any], Answers]:
        ERRORS[program.__name__] = SilentError(program, call, place, reported)
        return program

    return keep


def _shared(mesh: Any, *names: int) -> Tensor:
    """Random numbers whose first side the ranks share evenly: twice as many rows as ranks."""
    return random(2 * mesh.size(), *names)


def _ascending(mesh: Any) -> Tensor:
    """Numbers the largest of which the last rank holds."""
    return torch.arange(1.0, 6.0 * mesh.size() + 1, dtype=torch.float64).reshape(-1, 3)


@_silent("F.mse_loss on S(0), backward", _DECOMPOSED)
def mse_loss_gradient(mesh: Any) -> Answers:
    """The gradient is as many times too large as there are ranks; the loss itself is right.

    ``mse_loss_backward`` has no rule of its own. torch traces its decomposition to learn where the result is, and finds
    it on the shard. Then it runs not the decomposition but the operator, which divides by the shard's size.
    """
    x = _shared(mesh, 3)
    return gradient(mesh, F.mse_loss, (x, "S(0)"), (x * 0.5 + 1, "S(0)"))


@_silent("F.smooth_l1_loss on S(0), backward", _DECOMPOSED)
def smooth_l1_loss_gradient(mesh: Any) -> Answers:
    """As in `mse_loss_gradient`, ``smooth_l1_loss_backward`` divides by the shard's number of elements."""
    x = _shared(mesh, 3)
    return gradient(mesh, F.smooth_l1_loss, (x, "S(0)"), (x * 0.5 + 1, "S(0)"))


@_silent("F.huber_loss on S(0), backward", _DECOMPOSED)
def huber_loss_gradient(mesh: Any) -> Answers:
    """As in `mse_loss_gradient`, ``huber_loss_backward`` divides by the shard's number of elements."""
    x = _shared(mesh, 3)
    return gradient(mesh, F.huber_loss, (x, "S(0)"), (x * 0.5 + 1, "S(0)"))


@_silent("F.soft_margin_loss on S(0), backward", _DECOMPOSED)
def soft_margin_loss_gradient(mesh: Any) -> Answers:
    """As in `mse_loss_gradient`, ``soft_margin_loss_backward`` divides by the shard's number of elements."""
    x = _shared(mesh, 3)
    return gradient(mesh, F.soft_margin_loss, (x, "S(0)"), (x.flip(0).sign(), "S(0)"))


@_silent("F.binary_cross_entropy on S(0), backward", _DECOMPOSED)
def binary_cross_entropy_gradient(mesh: Any) -> Answers:
    """As in `mse_loss_gradient`, ``binary_cross_entropy_backward`` divides by the shard's number of elements."""
    x = _shared(mesh, 3).sigmoid()
    return gradient(mesh, F.binary_cross_entropy, (x, "S(0)"), (x.flip(0), "S(0)"))


@_silent("F.mse_loss on uneven S(0)", _DECOMPOSED)
def mse_loss_of_uneven_shards(mesh: Any) -> Answers:
    """The result is the mean of the shards' means, which is right only for shards of one size.

    torch traces the decomposition on a mesh of one device (``_get_fake_mesh``). On that mesh every size is shared
    evenly, so the rule of ``mean``, which refuses uneven shards, accepts these.
    """
    x = random(2 * mesh.size() + 1, 3)
    return value(mesh, F.mse_loss, (x, "S(0)"), (x * 0.5 + 1, "S(0)"))


@_silent("F.binary_cross_entropy on uneven S(0)", _DECOMPOSED)
def binary_cross_entropy_of_uneven_shards(mesh: Any) -> Answers:
    """As in `mse_loss_of_uneven_shards`, the trace gives the result ``P(avg)``, a mean of the shards' means."""
    x = random(2 * mesh.size() + 1, 3).sigmoid()
    return value(mesh, F.binary_cross_entropy, (x, "S(0)"), (x.flip(0), "S(0)"))


@_silent("F.cross_entropy on S(0) with ignored targets", _NLL)
def cross_entropy_with_padding(mesh: Any) -> Answers:
    """The result is the mean of the shards' means, although the shards have different numbers of targets that count.

    The rule gives the result ``P(avg)``. It checks only that the rows are shared evenly, not how many of them have
    ``ignore_index`` as their target.
    """
    logits, targets = _shared(mesh, 5), torch.arange(2 * mesh.size()) % 5
    targets[0] = -100
    return value(mesh, F.cross_entropy, (logits, "S(0)"), (targets, "S(0)"))


@_silent("F.cross_entropy(weight=…) on S(0)", _NLL, 185167)
def cross_entropy_with_class_weights(mesh: Any) -> Answers:
    """As in `cross_entropy_with_padding`, shards' means are averaged, although their sums of class weights differ."""
    logits, targets = _shared(mesh, 5), torch.arange(2 * mesh.size()) % 5
    weights = torch.arange(1.0, 6.0, dtype=torch.float64)
    return value(mesh, F.cross_entropy, (logits, "S(0)"), (targets, "S(0)"), (weights, "R"))


@_silent("F.conv2d on S(2)", _CONV, 186129)
def conv2d_over_height(mesh: Any) -> Answers:
    """Each rank convolves its own rows only, and the result is labelled as if these were all rows.

    The strategy says that the input must be gathered first (``needs_redistribute``). The handler for convolutions
    ignores that, and runs the convolution on the local tensors as they are. Without the handler the result is right.
    """
    return value(mesh, lambda x, w: F.conv2d(x, w, padding=1), (random(2, 4, 8, 8), "S(2)"), (random(4, 4, 3, 3), "R"))


@_silent("F.conv2d on S(3)", _CONV, 186129)
def conv2d_over_width(mesh: Any) -> Answers:
    """As in `conv2d_over_height`, each rank convolves only its own part of the images, here its columns."""
    return value(mesh, lambda x, w: F.conv2d(x, w, padding=1), (random(2, 4, 8, 8), "S(3)"), (random(4, 4, 3, 3), "R"))


@_silent("F.conv2d on P(sum)", _CONV, 186129)
def conv2d_of_partial_sums(mesh: Any) -> Answers:
    """As in `conv2d_over_height`, the handler runs on the local tensors: nobody adds up the partial sums, and each
    rank's part is labelled as the whole.
    """
    return value(
        mesh, lambda x, w: F.conv2d(x, w, padding=1), (random(2, 4, 8, 8), "P(sum)"), (random(4, 4, 3, 3), "R")
    )


@_silent("F.conv2d on S(0) of one image", _CONV, 186129)
def conv2d_of_fewer_images_than_ranks(mesh: Any) -> Answers:
    """As in `conv2d_over_height`, the input is not gathered. A rank without the one image has an empty result."""
    return value(mesh, F.conv2d, (random(1, 4, 8, 8), "S(0)"), (random(4, 4, 3, 3), "R"))


@_silent("F.conv_transpose2d on S(2)", _CONV, 186129)
def conv_transpose2d_over_height(mesh: Any) -> Answers:
    """The handler of `conv2d_over_height` also runs ``conv_transpose2d`` on the local rows, with the same label."""
    return value(mesh, F.conv_transpose2d, (random(2, 4, 8, 8), "S(2)"), (random(4, 4, 3, 3), "R"))


@_silent("logsumexp(0, keepdim=True) on S(1)", _LOGSUMEXP)
def logsumexp_keepdim(mesh: Any) -> Answers:
    """The result is sharded by columns, but its label says that it is sharded by rows.

    The rule looks for ``keepdim`` among the named arguments, but it comes by position. So the rule assumes that the
    reduced dimension is gone, and lowers the number of the sharded dimension by one.
    """
    return value(mesh, lambda x: x.logsumexp(0, keepdim=True), (random(4, 2 * mesh.size()), "S(1)"))


@_silent("logsumexp(0, keepdim=True) on S(1), backward", _LOGSUMEXP)
def logsumexp_keepdim_gradient(mesh: Any) -> Answers:
    """As in `logsumexp_keepdim`, the label names the wrong dimension. The gradient is wrong on two ranks; on four,
    three ranks count as empty and raise an error, and the first waits for them.
    """
    return gradient(mesh, lambda x: x.logsumexp(0, keepdim=True).sum(), (random(4, 2 * mesh.size()), "S(1)"))


@_silent("sum(dim=[], keepdim=True) on S(0)", _DIMS)
def sum_over_no_dimensions(mesh: Any) -> Answers:
    """Each rank keeps its own sum, and the label says that rows are sharded, although the result is one number.

    ``dim=[]`` means all dimensions to ``sum``, but the rule takes it to mean no dimension, unless the tensor has none.
    ``mean``, ``var``, ``vector_norm`` and ``logsumexp`` are wrong in the same way.
    """
    return value(mesh, lambda x: x.sum(dim=[], keepdim=True), (_shared(mesh, 3), "S(0)"))


@_silent("amax() on S(0), backward", _DIMS)
def amax_gradient(mesh: Any) -> Answers:
    """The gradient is NaN everywhere but in one place, unless rank 0 holds the largest element.

    Autograd divides the gradient by the number of elements that equal the maximum. It counts them with ``sum(dim=[],
    keepdim=True)``, which is wrong: see `sum_over_no_dimensions`. Rank 0's count is taken for all ranks; it may be 0.
    """
    return gradient(mesh, torch.amax, (_ascending(mesh), "S(0)"))


@_silent("norm(inf) on S(0), backward", _DIMS)
def largest_norm_gradient(mesh: Any) -> Answers:
    """The gradient of ``norm(inf)`` is NaN everywhere but in one place, for the same reason as in `amax_gradient`."""
    return gradient(mesh, lambda x: x.norm(float("inf")), (_ascending(mesh), "S(0)"))


@_silent("norm(inf) on P(max)", "_ops/_math_ops.py: vector_norm_strategy")
def largest_norm_of_partial_maxima(mesh: Any) -> Answers:
    """The result is the largest of the norms of the ranks' parts, not the norm of their maximum. A large negative
    number in one part decides the first and is discarded in the second.

    The rule reduces with ``max`` and so accepts ``P(max)`` as it is, although the norm takes absolute values first.
    """
    return value(mesh, lambda x: x.norm(float("inf")), (_shared(mesh, 3), "P(max)"))


@_silent("fft.irfft on P(max)", "_ops/_tensor_ops.py: fft_single_dim_strategy")
def irfft_of_partial_maxima(mesh: Any) -> Answers:
    """The result is the maximum of the ranks' transforms, which is not the transform of the maximum.

    The rule passes any partial value through, although that is right only for sums and averages. The cast to complex
    numbers before it does the same, although complex numbers have no maximum.
    """
    return value(mesh, torch.fft.irfft, (_shared(mesh, 4), "P(max)"))


@_silent("fill_(1) on P(sum)", _ONE_INPUT)
def fill_of_partial_sums(mesh: Any) -> Answers:
    """The result is as many times the number as there are ranks: each rank fills its part of the sum with the number.

    ``fill_`` shares its rule with ``clone`` and ``detach``, which keep any placement.
    """
    return on(mesh, _shared(mesh, 3), "P(sum)").fill_(1.0).full_tensor(), torch.ones(2 * mesh.size(), 3).double()


@_silent("F.cosine_embedding_loss on S(1)", _ONE_INPUT)
def cosine_embedding_loss_over_columns(mesh: Any) -> Answers:
    """The 1 in the loss's 1 − cos is wrong: it is an ``empty_like`` of partial cosines, filled as in
    `fill_of_partial_sums`.

    ``empty_like`` has the same rule, so its result is partial, too; that of ``zeros_like`` is replicated.
    """
    x = random(4, 2 * mesh.size())
    targets = torch.tensor([1, -1, 1, -1])
    return value(mesh, F.cosine_embedding_loss, (x, "S(1)"), (x.flip(0), "R"), (targets, "R"))


@_silent("x[:, 1].zero_() on S(1)", "_ops/_tensor_ops.py: select_int_strategy", 139735)
def write_through_a_column(mesh: Any) -> Answers:
    """The write is lost, because a column of a tensor with sharded columns is not a view but a gathered copy.

    The rule replicates the dimension from which it selects, and a replicated copy is no view of the tensor.
    """
    x = random(4, 2 * mesh.size())
    mine, alone = on(mesh, x, "S(1)"), x.clone()
    mine[:, 1].zero_()
    alone[:, 1].zero_()
    return mine.full_tensor(), alone


@_silent("x.sum().item() on S(0)", "_sharding_prop.py: propagate_op_sharding_non_cached", 166638, 144054)
def item_of_a_sum(mesh: Any) -> Answers:
    """Each rank returns its own sum as a Python number, so the number differs from rank to rank.

    ``item`` is ``_local_scalar_dense``, which DTensor lets through before it asks any rule, whatever the placement.
    ``float(loss)`` does the same. A comparison does not: ``loss > 0`` adds up first.
    """
    x = _shared(mesh, 3)
    return torch.tensor(on(mesh, x, "S(0)").sum().item()).double(), x.sum()


@_silent("v @ matrix on S(0)", "_dispatch.py: OpDispatcher")
def vector_times_matrix(mesh: Any) -> Answers:
    """The result's label says that it is a matrix of one row, but what the ranks hold is a vector.

    torch multiplies a vector as a matrix of one row, and then removes that dimension in place with ``squeeze_``. If an
    in-place operator does not change placements, the dispatcher returns its input with the label that it had, so with
    its old shape. ``quantile`` and ``linear`` of a vector are wrong for the same reason.
    """
    v, matrix = _shared(mesh), _shared(mesh, 3)
    return torch.zeros((on(mesh, v, "R") @ on(mesh, matrix, "S(0)")).shape), torch.zeros((v @ matrix).shape)


@_silent("histc(x, bins=3) after histc(x) on S(0)", "_ops/_math_ops.py: histc_strategy")
def histogram_after_another(mesh: Any) -> Answers:
    """The second result has the shape of the earlier call: 100 bins instead of 3.

    DTensor keeps decisions for later calls, by the arguments that the rule says matter: those from ``min`` on. ``bins``
    comes before them, so the second call gets the label of the first.
    """
    x = _shared(mesh, 3)
    torch.histc(on(mesh, x, "S(0)"), min=0, max=10)
    again = torch.histc(on(mesh, x, "S(0)"), bins=3, min=0, max=10)
    return torch.zeros(again.shape), torch.zeros(torch.histc(x, bins=3, min=0, max=10).shape)


@_silent("F.one_hot(x) on S(0)", "_sharding_prop.py: propagate_op_sharding_non_cached")
def one_hot_without_a_number_of_classes(mesh: Any) -> Answers:
    """Each rank makes the classes that its own largest index needs: ``item`` reads it, as in `item_of_a_sum`."""
    x = torch.arange(2 * mesh.size())
    return torch.zeros(F.one_hot(on(mesh, x, "S(0)")).shape), torch.zeros(F.one_hot(x).shape)
