"""Functions that take functions and become a graph within the graph: cond, while_loop, map, scan, checkpoint."""

import functools

import torch
from torch.utils.checkpoint import checkpoint

from ...._torch.breaks import (
    hints_wrapper,
    out_dtype,
    while_loop,
    wrap_with_autocast,
    wrap_with_set_grad_enabled,
)
from ..entries import cures, no_cure, trigger

SEEN: list[int] = []


def plus_one(x):
    """What several of the operators below are given."""
    return x + 1


def below_ten(x):
    """A loop's condition."""
    return x.sum() < 10


def add_up(carry, x):
    """A scan's step."""
    return carry + x, carry * x


def step_by(*values, combine_fn):
    """What `scan` makes of a step before it hands it to its operator."""
    return combine_fn(*values)


@trigger("GB0310")
def cond_on_a_list(x):
    return torch.cond([x.sum() > 0], plus_one, plus_one, (x,))


no_cure(cond_on_a_list, "eager refuses too: a predicate is a bool or a tensor")


@trigger("GB0311")
def cond_with_bare_operands(x):
    return torch.cond(x.sum() > 0, plus_one, plus_one, x)


no_cure(cond_with_bare_operands, "eager refuses too: operands are a tuple")


@trigger("GB0302")
def cond_without_a_function(x):
    return torch.cond(x.sum() > 0, 1, plus_one, (x,))


no_cure(cond_without_a_function, "eager refuses too: 1 cannot be called")


@trigger("GB0040")
def cond_with_unlike_branches(x):
    return torch.cond(x.sum() > 0, lambda y: (y, y), lambda y: [y + 1], (x,))


no_cure(cond_with_unlike_branches, "eager refuses too: both branches give results of one form")


@trigger("GB0067")
def cond_that_takes_notes(x):
    def noted(y):
        SEEN.append(1)
        return y + 1

    return torch.cond(x.sum() > 0, noted, plus_one, (x,))


no_cure(cond_that_takes_notes, "eager refuses too: a branch must not change what is outside")


@trigger("GB0303")
def loop_with_too_much(x):
    return torch.ops.higher_order.while_loop(below_ten, lambda y: (y + 1,), (x,), (), stop=3)


no_cure(loop_with_too_much, "eager refuses too: the operator has no such keyword")


@trigger("GB0304")
def loop_with_bare_additional_inputs(x):
    return torch.ops.higher_order.while_loop(below_ten, lambda y: (y + 1,), (x,), {})


no_cure(loop_with_bare_additional_inputs, "eager refuses too: additional inputs are a tuple")


@trigger("GB0308")
def loop_while_a_row(x):
    return while_loop(lambda y: y < 10, lambda y: (y + 1,), (x,))


no_cure(loop_while_a_row, "eager refuses too: a condition is one bool")


@trigger("GB0339")
def loop_for_ever(x):
    return while_loop(lambda y: True, lambda y: (y + 1,), (x,))


no_cure(loop_for_ever, "eager refuses too: the loop never ends")


@trigger("GB0314")
def loop_with_text(x):
    return while_loop(lambda y: "go", lambda y: (y + 1,), (x,))


no_cure(loop_with_text, "eager refuses too: a condition is a bool")


@trigger("GB0325")
def map_with_a_keyword(x):
    return torch.ops.higher_order.map_impl(plus_one, (x,), (), by=1)


no_cure(map_with_a_keyword, "eager refuses too: the operator has no such keyword")


@trigger("GB0315")
def associative_scan_of_a_bare_tensor(x):
    return torch.ops.higher_order.associative_scan(lambda a, b: a + b, x, ())


no_cure(associative_scan_of_a_bare_tensor, "eager refuses too: the operator takes a list")


@trigger("GB0316")
def associative_scan_with_bare_inputs(x):
    return torch.ops.higher_order.associative_scan(lambda a, b: a + b, [x], {})


no_cure(associative_scan_with_bare_inputs, "eager refuses too: additional inputs are a tuple")


@trigger("GB0317")
def associative_scan_of_a_number(x):
    return torch.ops.higher_order.associative_scan(lambda a, b: a + b, [x.new_ones(0, 3)], ())


no_cure(
    associative_scan_of_a_number,
    "the operator needs a row: ask for the shape before the call",
)


@trigger("GB0319")
def associative_scan_in_another_form(x):
    return torch.ops.higher_order.associative_scan(lambda a, b: (a + b,), [x], ())


no_cure(
    associative_scan_in_another_form,
    "it is a mistake that eager does not see: the function must give back the form that it took",
)


@trigger("GB0342")
def scan_without_a_function(x):
    return torch.ops.higher_order.scan(plus_one, [x[0]], [x], ())


no_cure(scan_without_a_function, "eager refuses too: the bare operator takes what `scan` makes of a function")


@trigger("GB0330")
def gradients_with_a_keyword(x):
    return wrap_with_set_grad_enabled(False, plus_one, x, other=1)


no_cure(gradients_with_a_keyword, "eager refuses too: the function takes no such keyword")


@trigger("GB0331")
def gradients_by_a_tensor(x):
    return wrap_with_set_grad_enabled(x.sum() > 0, plus_one, x)


no_cure(gradients_by_a_tensor, "eager refuses too: whether gradients are recorded is a bool")


@trigger("GB0332")
def gradients_around_a_closure(x):
    y = x * 2
    return wrap_with_set_grad_enabled(False, lambda z: z + y, x)


@cures(gradients_around_a_closure)
def gradients_around_arguments(x):
    return wrap_with_set_grad_enabled(False, lambda z, y: z + y, x, x * 2)


@trigger("GB0333")
def autocast_with_a_keyword(x):
    return wrap_with_autocast("cpu", torch.bfloat16, True, True, plus_one, x, other=1)


no_cure(autocast_with_a_keyword, "eager refuses too: the function takes no such keyword")


@trigger("GB0334")
def autocast_around_a_closure(x):
    y = x * 2
    return wrap_with_autocast("cpu", torch.bfloat16, True, True, lambda z: z + y, x)


@cures(autocast_around_a_closure)
def autocast_around_arguments(x):
    return wrap_with_autocast("cpu", torch.bfloat16, True, True, lambda z, y: z + y, x, x * 2)


@trigger("GB0344")
def autocast_by_a_tensor(x):
    return wrap_with_autocast("cpu", torch.bfloat16, x.sum() > 0, True, plus_one, x)


no_cure(autocast_by_a_tensor, "eager refuses too: whether numbers are cast is a bool")


@trigger("GB0335")
def hints_without_hints(x):
    return hints_wrapper(plus_one, (x,), {})


no_cure(hints_without_hints, "eager refuses too: hints are missing")


@trigger("GB0336")
def out_dtype_with_a_keyword(x):
    return out_dtype(torch.ops.aten.mul.Tensor, torch.int32, x, other=x)


no_cure(out_dtype_with_a_keyword, "eager refuses too: the operator takes no keywords")


@trigger("GB0337")
def strict_with_a_keyword(x):
    return torch.ops.higher_order.strict_mode(plus_one, (x,), other=1)


no_cure(strict_with_a_keyword, "eager refuses too: the operator takes no keywords")


@trigger("GB0067")
def checkpoint_that_takes_notes(x):
    def noted(y):
        SEEN.append(1)
        return y + 1

    return checkpoint(noted, x, use_reentrant=False)


@cures(checkpoint_that_takes_notes)
def notes_beside_the_checkpoint(x):
    SEEN.append(1)
    return checkpoint(plus_one, x, use_reentrant=False)


@trigger("GB0306")
def an_operator_that_dynamo_does_not_know(x):
    return torch.ops.higher_order.with_effects(None, plus_one, x)


no_cure(an_operator_that_dynamo_does_not_know, "eager refuses too: it is AOTAutograd's own operator")


@trigger("GB0327")
def delegate_with_a_keyword(x):
    return torch.ops.higher_order.executorch_call_delegate(plus_one, x, other=1)


no_cure(delegate_with_a_keyword, "eager refuses too: the operator takes no keywords")


@trigger("GB6017")
def delegate_without_a_module(x):
    return torch.ops.higher_order.executorch_call_delegate(plus_one, x)


no_cure(delegate_without_a_module, "eager refuses too: a delegate is a module")


@trigger("GB0312")
def cond_with_a_function_as_operand(x):
    return torch.cond(x.sum() > 0, lambda y, f: y + 1, lambda y, f: y - 1, (x, len))


no_cure(cond_with_a_function_as_operand, "eager refuses too: operands are tensors")


@trigger("GB0313")
def cond_with_branches_of_two_forms(x):
    return torch.cond(x.sum() > 0, lambda y: (y + 1, y + 2), lambda y: [y + 1, y + 2], (x,))


no_cure(cond_with_branches_of_two_forms, "eager refuses too: both branches give results of one form")


@trigger("GB0320")
def bare_scan_of_a_bare_tensor(x):
    return torch.ops.higher_order.scan(functools.partial(step_by, combine_fn=add_up), [x[0]], x, ())


@trigger("GB0321")
def bare_scan_from_a_dictionary(x):
    return torch.ops.higher_order.scan(functools.partial(step_by, combine_fn=add_up), {}, [x], ())


@trigger("GB0322")
def bare_scan_from_nothing(x):
    return torch.ops.higher_order.scan(functools.partial(step_by, combine_fn=add_up), [], [x], ())


@trigger("GB0323")
def bare_scan_with_bare_inputs(x):
    return torch.ops.higher_order.scan(functools.partial(step_by, combine_fn=add_up), [x[0]], [x], {})


@trigger("GB0324")
def bare_scan_over_nothing(x):
    return torch.ops.higher_order.scan(functools.partial(step_by, combine_fn=add_up), [x[0]], [x.new_ones(0, 3)], ())


@trigger("GB0326")
def bare_map_over_nothing(x):
    return torch.ops.higher_order.map_impl(plus_one, (x.new_ones(0, 3),), ())


no_cure(bare_scan_of_a_bare_tensor, "eager refuses too: the operator takes a list")


no_cure(bare_scan_from_a_dictionary, "eager refuses too: the operator takes a list")


no_cure(bare_scan_from_nothing, "eager refuses too: there must be something to carry")


no_cure(bare_scan_with_bare_inputs, "eager refuses too: additional inputs are a tuple")


no_cure(bare_scan_over_nothing, "eager refuses too: there must be a row")


no_cure(bare_map_over_nothing, "eager refuses too: there must be a row")
