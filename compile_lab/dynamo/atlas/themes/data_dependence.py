"""What depends on a tensor's values: Dynamo traces shapes and dtypes, and has no values."""

import torch

from ..entries import cures, no_cure, trigger


@trigger("GB0170")
def branch_on_a_value(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


@cures(branch_on_a_value)
def choose_in_the_graph(x):
    return torch.where(x.sum() > 0, x + 1, x - 1)


@trigger("GB0170")
def loop_until_a_value(x):
    while x.sum() < 100:
        x = x * 2
    return x


@cures(loop_until_a_value)
def loop_in_the_graph(x):
    return torch.ops.higher_order.while_loop(lambda y: y.sum() < 100, lambda y: (y * 2,), (x,), ())[0]


@trigger("GB0170")
def negate_a_tensor(x):
    return x + 1 if not x.any() else x - 1


@cures(negate_a_tensor)
def negate_in_the_graph(x):
    return torch.where(torch.logical_not(x.any()), x + 1, x - 1)


@trigger("GB0170")
def raise_on_a_value(x):
    if not torch.isfinite(x).all():
        raise ValueError("not finite")
    return x + 1


@cures(raise_on_a_value, "it raises an AssertionError, and when the graph runs")
def assert_on_a_value(x):
    assert torch.isfinite(x).all(), "not finite"
    return x + 1


@trigger("GB0124")
def scale_by_an_item(x):
    return x / x.sum().item()


@cures(scale_by_an_item)
def scale_by_a_tensor(x):
    return x / x.sum()


@trigger("GB0036")
def sum_under_a_mask(x):
    return x[x > 1].sum()


@cures(sum_under_a_mask)
def sum_with_zeros(x):
    return torch.where(x > 1, x, 0).sum()


@trigger("GB0033")
def ask_for_equality(x):
    return x + 1 if torch.equal(x, x.flip(0)) else x


@cures(ask_for_equality)
def equality_as_a_tensor(x):
    return torch.where((x == x.flip(0)).all(), x + 1, x)


@trigger("GB0246", lambda: (torch.tensor([0, 2, 1]),))
def one_hot_without_a_number(x):
    return torch.nn.functional.one_hot(x)


@cures(one_hot_without_a_number)
def one_hot_with_a_number(x):
    return torch.nn.functional.one_hot(x, 3)


@trigger("GB0109")
def floats_as_a_list(x):
    return x.tolist()


no_cure(floats_as_a_list, "the numbers leave the graph, and a float has no symbol that could stand for it in a list")


@trigger("GB0207")
def sort_by_values(x):
    return sorted([x[0], x[2], x[1]], key=lambda each: -each)


@cures(sort_by_values)
def sort_in_the_graph(x):
    found = x.sort(descending=True).values
    return [found[0], found[1], found[2]]


@trigger("GB0152")
def group_by_values(x):
    import itertools

    return [len(list(group)) for _, group in itertools.groupby([x[0], x[1]])]


no_cure(group_by_values, "how many groups there are is decided by values, and a list's length must be known")


@trigger("GB6622")
def compare_lists_of_tensors(x):
    return x + 1 if [x[0]] == [x[1]] else x


@cures(compare_lists_of_tensors)
def compare_stacked_tensors(x):
    return torch.where(x[0] == x[1], x + 1, x)


@trigger("GB0569")
def text_of_a_tensor(x):
    return repr(x)


no_cure(text_of_a_tensor, "the text shows values, which exist only when the graph has run: write it outside")


@trigger("GB0002", lambda: (torch.ones(3, dtype=torch.int64),), capture_scalar_outputs=True)
def assert_on_a_number(x):
    number = x.sum().item()
    assert number == number + 1
    return x


no_cure(assert_on_a_number, "eager raises AssertionError too: it is false for every number")


@trigger("GB0170", lambda: (torch.tensor(3),), capture_scalar_outputs=True)
def match_a_tensor(x):
    match x:
        case 3:
            return x + 1
        case _:
            return x


@cures(match_a_tensor)
def match_in_the_graph(x):
    return torch.where(x == 3, x + 1, x)


@trigger("GB0170")
def largest_of_two(x):
    return max(x[0], x[1]) if x[0] > x[1] else x[1]


@cures(largest_of_two)
def largest_in_the_graph(x):
    return torch.maximum(x[0], x[1])
