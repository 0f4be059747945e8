"""The causes of the silent errors, each confirmed: with that one place repaired, the same program is right."""

import sys

import pytest

from compile_lab.devices import ranks as gangs

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="ranks are forked"),
    pytest.mark.slow,
]
RULES = {
    "mse_loss_backward.default": ["mse_loss_gradient"],
    "smooth_l1_loss_backward.default": ["smooth_l1_loss_gradient"],
    "huber_loss_backward.default": ["huber_loss_gradient"],
    "soft_margin_loss_backward.default": ["soft_margin_loss_gradient"],
    "binary_cross_entropy_backward.default": ["binary_cross_entropy_gradient"],
    "mse_loss.default": ["mse_loss_of_uneven_shards"],
    "binary_cross_entropy.default": ["binary_cross_entropy_of_uneven_shards"],
    "nll_loss_forward.default": ["cross_entropy_with_padding", "cross_entropy_with_class_weights"],
    "linalg_vector_norm.default": ["largest_norm_of_partial_maxima"],
    "_fft_c2r.default": ["irfft_of_partial_maxima"],
    "logsumexp.default": ["logsumexp_keepdim", "logsumexp_keepdim_gradient"],
    "empty_like.default": ["cosine_embedding_loss_over_columns"],
    "fill_.Scalar": ["fill_of_partial_sums"],
}
"""Operators that get the plainest of rules, all replicated, and the programs that this must repair."""


def repaired(rules):
    """On a rank: by name, what is still wrong after the place of its cause is repaired."""
    import torch
    from torch.distributed.tensor import DTensor, Replicate, init_device_mesh
    from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
    from torch.distributed.tensor._ops import _math_ops
    from torch.distributed.tensor.debug import _clear_sharding_prop_cache
    from torch.distributed.tensor.experimental import register_sharding

    from chapters.sharding_strategies.silent_errors import ERRORS
    from compile_lab.devices.alarms import difference

    aten, dispatcher = getattr(torch, "ops").aten, DTensor._op_dispatcher  # noqa: B009
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    told = {}

    def ask(*names):
        _clear_sharding_prop_cache()
        for name in names:
            try:
                told[name] = difference(*ERRORS[name].program(mesh))
            except Exception as error:
                told[name] = f"refused: {error}"

    infer = _math_ops._infer_reduction_dims
    _math_ops._infer_reduction_dims = lambda dims, ndim: None if dims == [] else infer(dims, ndim)
    ask("sum_over_no_dimensions", "amax_gradient", "largest_norm_gradient")
    _math_ops._infer_reduction_dims = infer

    handler = dispatcher._custom_op_handlers.pop(aten.convolution.default)
    ask(*(name for name in ERRORS if name.startswith("conv")))
    dispatcher._custom_op_handlers[aten.convolution.default] = handler

    dispatcher.sharding_propagator.op_to_schema_info[aten.histc.default] = RuntimeSchemaInfo(1)
    ask("histogram_after_another")

    for operator, names in rules.items():
        name, _, overload = operator.partition(".")
        op = getattr(getattr(aten, name), overload)

        def replicated(*args, op=op, **kwargs):
            held = [Replicate() if hasattr(each, "shape") else None for each in args]
            return [([Replicate()] * len(op._schema.returns), held)]

        register_sharding(op)(replicated)
        dispatcher.sharding_propagator.op_single_dim_strategy_funcs.pop(op, None)  # it would be asked first
        ask(*names)
    return told


@pytest.fixture(scope="module")
def left():
    return gangs.run(repaired, 2, RULES, timeout=600, echo=False)[0]


def test_with_the_place_of_its_cause_repaired_the_program_is_right(left):
    still = {name: said for name, said in left.items() if said}
    assert set(still) == {"fill_of_partial_sums", "irfft_of_partial_maxima"}, still
    assert still["fill_of_partial_sums"].startswith("refused"), "in place, nothing can be gathered: an error is right"
    assert still["irfft_of_partial_maxima"].startswith("refused"), "complex numbers have no maximum: an error is right"
    assert len(left) == 24


def in_place_and_not():
    import torch
    from torch.distributed.tensor import Replicate, init_device_mesh

    from chapters.sharding_strategies.silent import on, random

    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    row, x = on(mesh, random(1, 4), "R"), on(mesh, random(4, 4), "S(1)")
    apart = row.squeeze(0).shape
    total, alone = on(mesh, random(4, 4), "S(0)").sum(), random(4, 4).sum()
    return {
        "squeeze": tuple(apart),
        "squeeze_": tuple(row.squeeze_(0).shape),
        "held": tuple(row.to_local().shape),
        "a column is a copy": x[:, 1].placements == (Replicate(),),
        "item is a part": abs(total.item() - total.to_local().item()) < 1e-12,
        "full_tensor is whole": abs(total.full_tensor().item() - alone.item()) < 1e-12,
    }


def test_what_no_rule_decides_is_seen_directly():
    """Squeezing in place leaves the label; a column is replicated, so a copy; ``item`` reads a rank's own part."""
    told = gangs.run(in_place_and_not, 2, timeout=600, echo=False)[0]
    assert told["squeeze"] == told["held"] == (4,) and told["squeeze_"] == (1, 4)
    assert told["a column is a copy"] and told["item is a part"] and told["full_tensor is whole"]
