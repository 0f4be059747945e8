"""Methods and attributes of tensors that Dynamo does not trace."""

import copy

import torch

from ..entries import cures, no_cure, trigger


def _leaf() -> tuple[torch.Tensor]:
    return (torch.arange(1.0, 4.0).requires_grad_(),)


@trigger("GB0107")
def fill_with_random_numbers(x):
    return x.clone().random_()


@trigger("GB0107")
def fill_with_random_digits(x):
    return x.clone().random_(10)


@cures(fill_with_random_digits)
def random_digits_like_it(x):
    return torch.randint_like(x, 10)


@trigger("GB0110")
def uniform_from(x):
    return torch.empty_like(x).uniform_(**{"from": 0.0})


@cures(uniform_from)
def uniform_in_order(x):
    return torch.empty_like(x).uniform_(0.0)


@trigger("GB0126", lambda: (torch.arange(6.0),))
def resize_in_place(x):
    return x.clone().resize_(3)


@cures(resize_in_place)
def take_the_first(x):
    return x[:3].clone()


@trigger("GB0127", lambda: (torch.arange(6.0), torch.ones(2, 2)))
def resize_as_another(x, other):
    return x.clone().resize_as_(other)


@cures(resize_as_another)
def first_in_anothers_shape(x, other):
    return x[: other.numel()].clone().view(other.shape)


@trigger("GB0128")
def set_to_a_part(x):
    y = torch.empty(0)
    return y.set_(x, 1, (2,), (1,)) + 1


@cures(set_to_a_part)
def part_as_a_view(x):
    return x.as_strided((2,), (1,), 1) + 1


def _sparse() -> tuple[torch.Tensor]:
    return (torch.eye(2),)


@trigger("GB0015", lambda: (torch.eye(2).to_sparse(),))
def sparse_argument(x):
    return x.to_dense() + 1


no_cure(sparse_argument, "a sparse tensor cannot come in: hand over its indices and values, which are dense")


@trigger("GB0277", _sparse)
def make_it_sparse(x):
    return x.to_sparse().sum()


no_cure(make_it_sparse, "no sparse tensor can be traced: what it computes must be written with dense ones")


@torch.library.custom_op("atlas::sparse_matmul", mutates_args=())
def sparse_matmul(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Keeps the sparse tensor inside of an operator."""
    return torch.sparse.mm(weight.to_sparse(), x)


@sparse_matmul.register_fake
def _sparse_matmul(weight, x):
    return x.new_empty(weight.shape[0], x.shape[1])


@trigger("GB0277", lambda: (torch.eye(3), torch.ones(3, 2)))
def multiply_by_a_sparse_matrix(weight, x):
    return torch.sparse.mm(weight.to_sparse(), x)


@cures(multiply_by_a_sparse_matrix, "the operator has no gradient, which `register_autograd` would add")
def multiply_in_an_operator(weight, x):
    return sparse_matmul(weight, x)


@trigger("GB0129")
def resize_a_sparse_tensor(x):
    return x.sparse_resize_((3,), 1, 0)


no_cure(resize_a_sparse_tensor, "eager refuses too: the tensor is dense, and a sparse one cannot come in at all")


@trigger("GB0130")
def resize_and_clear_a_sparse_tensor(x):
    return x.sparse_resize_and_clear_((3,), 1, 0)


no_cure(resize_and_clear_a_sparse_tensor, "eager refuses too: the tensor is dense")


@trigger("GB4198")
def deep_copy_a_tensor(x):
    return copy.deepcopy(x) + 1


@cures(deep_copy_a_tensor)
def clone_a_tensor(x):
    return x.detach().clone() + 1


@trigger("GB0045", fake_tensor_disable_inference_mode=True)
def ask_for_inference(x):
    return x + 1 if x.is_inference() else x


no_cure(ask_for_inference, "Dynamo leaves inference mode while it traces, so the answer would be another one")


@trigger("GB0046", fake_tensor_disable_inference_mode=True)
def ask_for_inference_mode(x):
    return x + 1 if torch.is_inference_mode_enabled() else x


no_cure(ask_for_inference_mode, "Dynamo leaves inference mode while it traces: ask outside and hand over the answer")


@trigger("GB0108", _leaf)
def keep_a_gradient(x):
    y = x * 2
    y.retain_grad()
    return y


no_cure(keep_a_gradient, "the intermediate's gradient is AOTAutograd's affair: return it and retain it outside")


@trigger("GB0125")
def ask_a_gradient_of_an_argument(x):
    x.requires_grad_()
    return (x * 2).sum()


no_cure(ask_a_gradient_of_an_argument, "what requires a gradient is decided before a graph is traced: do it outside")


@trigger("GB0206")
def assign_requires_grad(x):
    x.requires_grad = True
    return (x * 2).sum()


no_cure(assign_requires_grad, "what requires a gradient is decided before a graph is traced: do it outside")


@trigger("GB0225")
def create_with_a_gradient(x):
    return torch.zeros(3, requires_grad=True) + x


no_cure(create_with_a_gradient, "nobody could read the gradient of a leaf that is born in the graph")


@trigger("GB0056")
def replace_the_data_of_an_intermediate(x):
    y = x + 1
    y.data = x
    return y


@cures(replace_the_data_of_an_intermediate)
def copy_into_an_intermediate(x):
    y = x.view_as(x)
    return y


@trigger("GB0220")
def replace_the_data_by_another_dtype(x):
    x.data = x.double()
    return x + 1


no_cure(replace_the_data_by_another_dtype, "an argument's dtype is guarded, and cannot change inside: convert outside")


@trigger("GB0117")
def too_many_arguments(x):
    return x.numel(1, 2, 3)


no_cure(too_many_arguments, "eager refuses too: `numel` takes no arguments")


@trigger("GB5976")
def compare_addresses(x):
    return x + 1 if x.data_ptr() == torch.ones(3).data_ptr() else x


no_cure(compare_addresses, "addresses exist only when the graph runs")


@trigger("GB0016", lambda: (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),))
def strided_nested_tensor(x):
    return x + 1


no_cure(strided_nested_tensor, "only nested tensors of the jagged layout can come in")


@trigger("GB0233")
def make_a_strided_nested_tensor(x):
    return torch.nested.nested_tensor([x, x], layout=torch.strided).to_padded_tensor(0.0)


@cures(make_a_strided_nested_tensor)
def pad_by_hand(x):
    return torch.nn.utils.rnn.pad_sequence([x, x], batch_first=True)


@trigger("GB0245", lambda: (torch.ones(2, 2),))
def nested_from_a_tensor(x):
    return torch.nested.nested_tensor(x, layout=torch.jagged).values()


no_cure(nested_from_a_tensor, "rows of a tensor must be handed over as a list")


@trigger("GB0247", lambda: (torch.ones(3), torch.ones(2)))
def out_of_another_shape(x, out):
    return torch.add(x, 1, out=out)


no_cure(out_of_another_shape, "an argument's shape is guarded, and cannot change inside: hand over one that fits")


@trigger("GB0242", lambda: (torch.ones(3), torch.zeros(6)[::2]))
def out_with_gaps(x, out):
    return torch.add(x, 1, out=out)


@cures(out_with_gaps)
def copy_into_gaps(x, out):
    return out.copy_(torch.add(x, 1))


@trigger("GB0240", lambda: (torch.arange(3.0), torch.ones(2), torch.ones(2, dtype=torch.int64)))
def several_outs_of_another_shape(x, values, places):
    return torch.sort(x, out=(values, places))[0]


no_cure(several_outs_of_another_shape, "an argument's shape cannot change inside: hand over ones that fit")


@trigger("GB4315", lambda: (torch.ones(3), torch.ones(2)))
def shapes_that_do_not_fit(x, y):
    return x + y


no_cure(shapes_that_do_not_fit, "eager refuses too: shapes 3 and 2 cannot be broadcast")


@trigger("GB0112")
def wrong_arguments(x):
    return torch.sum(x, dim="first")


no_cure(wrong_arguments, "eager refuses too: a dimension is a number")


no_cure(
    fill_with_random_numbers,
    "no other operation draws the same numbers to the bit",
)
