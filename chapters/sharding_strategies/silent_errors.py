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
    """As many times too large as there are ranks; the loss itself is right.

    ``mse_loss_backward`` has no rule of its own. torch traces its decomposition to learn where the result is: on the
    shard. Then it runs not the decomposition but the operator, which divides by the shard's number of elements.
    """
    x = _shared(mesh, 3)
    return gradient(mesh, F.mse_loss, (x, "S(0)"), (x * 0.5 + 1, "S(0)"))


@_silent("F.smooth_l1_loss on S(0), backward", _DECOMPOSED)
def smooth_l1_loss_gradient(mesh: Any) -> Answers:
    """As `mse_loss_gradient`: ``smooth_l1_loss_backward`` divides by the shard's number of elements."""
    x = _shared(mesh, 3)
    return gradient(mesh, F.smooth_l1_loss, (x, "S(0)"), (x * 0.5 + 1, "S(0)"))


@_silent("F.huber_loss on S(0), backward", _DECOMPOSED)
def huber_loss_gradient(mesh: Any) -> Answers:
    """As `mse_loss_gradient`: ``huber_loss_backward`` divides by the shard's number of elements."""
    x = _shared(mesh, 3)
    return gradient(mesh, F.huber_loss, (x, "S(0)"), (x * 0.5 + 1, "S(0)"))


@_silent("F.soft_margin_loss on S(0), backward", _DECOMPOSED)
def soft_margin_loss_gradient(mesh: Any) -> Answers:
    """As `mse_loss_gradient`: ``soft_margin_loss_backward`` divides by the shard's number of elements."""
    x = _shared(mesh, 3)
    return gradient(mesh, F.soft_margin_loss, (x, "S(0)"), (x.flip(0).sign(), "S(0)"))


@_silent("F.binary_cross_entropy on S(0), backward", _DECOMPOSED)
def binary_cross_entropy_gradient(mesh: Any) -> Answers:
    """As `mse_loss_gradient`: ``binary_cross_entropy_backward`` divides by the shard's number of elements."""
    x = _shared(mesh, 3).sigmoid()
    return gradient(mesh, F.binary_cross_entropy, (x, "S(0)"), (x.flip(0), "S(0)"))


@_silent("F.mse_loss on uneven S(0)", _DECOMPOSED)
def mse_loss_of_uneven_shards(mesh: Any) -> Answers:
    """A mean of the shards' means, which is the mean only of shards of one size.

    The decomposition is traced on a mesh of one device (``_get_fake_mesh``). There every size is shared evenly, so what
    the rule of ``mean`` refuses of uneven shards passes.
    """
    x = random(2 * mesh.size() + 1, 3)
    return value(mesh, F.mse_loss, (x, "S(0)"), (x * 0.5 + 1, "S(0)"))


@_silent("F.binary_cross_entropy on uneven S(0)", _DECOMPOSED)
def binary_cross_entropy_of_uneven_shards(mesh: Any) -> Answers:
    """As `mse_loss_of_uneven_shards`: by the same trace its result is ``P(avg)``."""
    x = random(2 * mesh.size() + 1, 3).sigmoid()
    return value(mesh, F.binary_cross_entropy, (x, "S(0)"), (x.flip(0), "S(0)"))


@_silent("F.cross_entropy on S(0) with ignored targets", _NLL)
def cross_entropy_with_padding(mesh: Any) -> Answers:
    """A mean of the shards' means, whose shards have different numbers of targets that count.

    The rule answers ``P(avg)`` and asks only whether the rows are shared evenly, not how many of them have
    ``ignore_index`` as their target.
    """
    logits, targets = _shared(mesh, 5), torch.arange(2 * mesh.size()) % 5
    targets[0] = -100
    return value(mesh, F.cross_entropy, (logits, "S(0)"), (targets, "S(0)"))


@_silent("F.cross_entropy(weight=…) on S(0)", _NLL, 185167)
def cross_entropy_with_class_weights(mesh: Any) -> Answers:
    """As `cross_entropy_with_padding`: the shards' sums of weights differ."""
    logits, targets = _shared(mesh, 5), torch.arange(2 * mesh.size()) % 5
    weights = torch.arange(1.0, 6.0, dtype=torch.float64)
    return value(mesh, F.cross_entropy, (logits, "S(0)"), (targets, "S(0)"), (weights, "R"))


@_silent("F.conv2d on S(2)", _CONV, 186129)
def conv2d_over_height(mesh: Any) -> Answers:
    """Each rank keeps its own rows, and says that they are all.

    The decision says that the input is to be gathered first (``needs_redistribute``). The handler does not look at
    that: it runs the convolution on the local tensors as they are. Without the handler the result is right.
    """
    return value(mesh, lambda x, w: F.conv2d(x, w, padding=1), (random(2, 4, 8, 8), "S(2)"), (random(4, 4, 3, 3), "R"))


@_silent("F.conv2d on S(3)", _CONV, 186129)
def conv2d_over_width(mesh: Any) -> Answers:
    """Each rank keeps its own columns, as in `conv2d_over_height` its rows."""
    return value(mesh, lambda x, w: F.conv2d(x, w, padding=1), (random(2, 4, 8, 8), "S(3)"), (random(4, 4, 3, 3), "R"))


@_silent("F.conv2d on P(sum)", _CONV, 186129)
def conv2d_of_partial_sums(mesh: Any) -> Answers:
    """As `conv2d_over_height`: the sums are not made, and each rank's part is labelled as the whole."""
    return value(
        mesh, lambda x, w: F.conv2d(x, w, padding=1), (random(2, 4, 8, 8), "P(sum)"), (random(4, 4, 3, 3), "R")
    )


@_silent("F.conv2d on S(0) of one image", _CONV, 186129)
def conv2d_of_fewer_images_than_ranks(mesh: Any) -> Answers:
    """As `conv2d_over_height`: one image, sharded by images. A rank without one has an empty result."""
    return value(mesh, F.conv2d, (random(1, 4, 8, 8), "S(0)"), (random(4, 4, 3, 3), "R"))


@_silent("F.conv_transpose2d on S(2)", _CONV, 186129)
def conv_transpose2d_over_height(mesh: Any) -> Answers:
    """By the same handler as `conv2d_over_height`, and with the same label."""
    return value(mesh, F.conv_transpose2d, (random(2, 4, 8, 8), "S(2)"), (random(4, 4, 3, 3), "R"))


@_silent("logsumexp(0, keepdim=True) on S(1)", _LOGSUMEXP)
def logsumexp_keepdim(mesh: Any) -> Answers:
    """Columns are sharded, and the label says that rows are.

    The rule reads ``keepdim`` from the named arguments; it comes by position. So the rule thinks that a dimension went,
    and counts the shard's down by one.
    """
    return value(mesh, lambda x: x.logsumexp(0, keepdim=True), (random(4, 2 * mesh.size()), "S(1)"))


@_silent("logsumexp(0, keepdim=True) on S(1), backward", _LOGSUMEXP)
def logsumexp_keepdim_gradient(mesh: Any) -> Answers:
    """As `logsumexp_keepdim`. For two ranks: of four, three count as empty and raise, and the first waits."""
    return gradient(mesh, lambda x: x.logsumexp(0, keepdim=True).sum(), (random(4, 2 * mesh.size()), "S(1)"))


@_silent("sum(dim=[], keepdim=True) on S(0)", _DIMS)
def sum_over_no_dimensions(mesh: Any) -> Answers:
    """Each rank's own sum, and a label that says that rows are sharded; of a result that has none.

    ``dim=[]`` means all dimensions to ``sum``. The rule takes it as none of them, unless the tensor has none itself.
    ``mean``, ``var``, ``vector_norm`` and ``logsumexp`` are wrong alike.
    """
    return value(mesh, lambda x: x.sum(dim=[], keepdim=True), (_shared(mesh, 3), "S(0)"))


@_silent("amax() on S(0), backward", _DIMS)
def amax_gradient(mesh: Any) -> Answers:
    """NaN everywhere but in one place, unless rank 0 holds the largest element.

    The gradient is divided by the number of elements that are the largest, which autograd counts with
    ``sum(dim=[], keepdim=True)``: `sum_over_no_dimensions`. Rank 0's count is taken for all: 0, if it has none.
    """
    return gradient(mesh, torch.amax, (_ascending(mesh), "S(0)"))


@_silent("norm(inf) on S(0), backward", _DIMS)
def largest_norm_gradient(mesh: Any) -> Answers:
    """NaN everywhere but in one place: the gradient of ``norm(inf)``, as that of `amax_gradient`."""
    return gradient(mesh, lambda x: x.norm(float("inf")), (_ascending(mesh), "S(0)"))


@_silent("norm(inf) on P(max)", "_ops/_math_ops.py: vector_norm_strategy")
def largest_norm_of_partial_maxima(mesh: Any) -> Answers:
    """The largest of the parts' norms. A part that is low enough has the largest absolute value, and no say.

    The rule reduces with ``max`` and so takes ``P(max)`` as it comes, though the norm takes absolute values first.
    """
    return value(mesh, lambda x: x.norm(float("inf")), (_shared(mesh, 3), "P(max)"))


@_silent("fft.irfft on P(max)", "_ops/_tensor_ops.py: fft_single_dim_strategy")
def irfft_of_partial_maxima(mesh: Any) -> Answers:
    """A maximum of transforms, which is not the transform of the maximum.

    The rule passes any partial value through, as it may with sums and averages alone; so does the cast to complex
    numbers before it, of which there is no maximum.
    """
    return value(mesh, torch.fft.irfft, (_shared(mesh, 4), "P(max)"))


@_silent("fill_(1) on P(sum)", _ONE_INPUT)
def fill_of_partial_sums(mesh: Any) -> Answers:
    """As many times the number as there are ranks: each fills its part of the sum with it.

    ``fill_`` shares its rule with ``clone`` and ``detach``, which keep any placement.
    """
    return on(mesh, _shared(mesh, 3), "P(sum)").fill_(1.0).full_tensor(), torch.ones(2 * mesh.size(), 3).double()


@_silent("F.cosine_embedding_loss on S(1)", _ONE_INPUT)
def cosine_embedding_loss_over_columns(mesh: Any) -> Answers:
    """The loss's 1 − cos is wrong: the ones are an ``empty_like`` of partial cosines, filled as `fill_of_partial_sums`.

    ``empty_like`` has the same rule, so it is partial, too; ``zeros_like`` has another, and is replicated.
    """
    x = random(4, 2 * mesh.size())
    targets = torch.tensor([1, -1, 1, -1])
    return value(mesh, F.cosine_embedding_loss, (x, "S(1)"), (x.flip(0), "R"), (targets, "R"))


@_silent("x[:, 1].zero_() on S(1)", "_ops/_tensor_ops.py: select_int_strategy", 139735)
def write_through_a_column(mesh: Any) -> Answers:
    """The write is lost: a column of a tensor whose columns are sharded is not a view but a gathered copy.

    The rule replicates the dimension that it takes from, and a replicated copy is no view.
    """
    x = random(4, 2 * mesh.size())
    mine, alone = on(mesh, x, "S(1)"), x.clone()
    mine[:, 1].zero_()
    alone[:, 1].zero_()
    return mine.full_tensor(), alone


@_silent("x.sum().item() on S(0)", "_sharding_prop.py: propagate_op_sharding_non_cached", 166638, 144054)
def item_of_a_sum(mesh: Any) -> Answers:
    """Each rank's own sum, as a Python number: another one on each rank.

    ``item`` is ``_local_scalar_dense``, which is let through before any rule is asked, whatever the placement. So is
    ``float(loss)``. A comparison is not: ``loss > 0`` adds up first.
    """
    x = _shared(mesh, 3)
    return torch.tensor(on(mesh, x, "S(0)").sum().item()).double(), x.sum()


@_silent("v @ matrix on S(0)", "_dispatch.py: OpDispatcher")
def vector_times_matrix(mesh: Any) -> Answers:
    """The result says that it is a matrix of one row; what the ranks hold is the vector.

    A vector is multiplied as a row, which ``squeeze_`` takes away in place. Where placements do not change, dispatch
    gives an in-place operator's input back as it was labelled, with its old shape. ``quantile`` and ``linear`` of a
    vector come to it, too.
    """
    v, matrix = _shared(mesh), _shared(mesh, 3)
    return torch.zeros((on(mesh, v, "R") @ on(mesh, matrix, "S(0)")).shape), torch.zeros((v @ matrix).shape)


@_silent("histc(x, bins=3) after histc(x) on S(0)", "_ops/_math_ops.py: histc_strategy")
def histogram_after_another(mesh: Any) -> Answers:
    """The shape of an earlier call: 100 bins, where there are 3.

    Decisions are kept by what the rule says matters: the arguments from ``min`` on. ``bins`` comes before. So the
    second call gets the first one's label.
    """
    x = _shared(mesh, 3)
    torch.histc(on(mesh, x, "S(0)"), min=0, max=10)
    again = torch.histc(on(mesh, x, "S(0)"), bins=3, min=0, max=10)
    return torch.zeros(again.shape), torch.zeros(torch.histc(x, bins=3, min=0, max=10).shape)


@_silent("F.one_hot(x) on S(0)", "_sharding_prop.py: propagate_op_sharding_non_cached")
def one_hot_without_a_number_of_classes(mesh: Any) -> Answers:
    """As many classes as each rank's own largest index has: it is read with ``item``, as in `item_of_a_sum`."""
    x = torch.arange(2 * mesh.size())
    return torch.zeros(F.one_hot(on(mesh, x, "S(0)")).shape), torch.zeros(F.one_hot(x).shape)
