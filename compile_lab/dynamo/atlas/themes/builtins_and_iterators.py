"""Python's builtins, iterators and containers, where Dynamo has no rule for them."""

import collections
import functools
import itertools
import logging
import types
import typing
import warnings

import torch

from ..entries import cures, no_cure, trigger

LOGGER = logging.getLogger("atlas")


@trigger("GB0059")
def number_to_text(x):
    return str(x.sum())


no_cure(number_to_text, "the text shows a value, which exists only when the graph has run: write it outside")


@trigger("GB0059")
def a_fresh_object(x):
    mark = object()
    return x + 1 if mark is not None else x


@cures(a_fresh_object)
def a_list_as_a_mark(x):
    mark = []
    return x + 1 if mark is not None else x


@trigger("GB0155")
def group_with_a_wrong_keyword(x):
    return [name for name, _ in itertools.groupby("aab", by=str)], x + 1


no_cure(group_with_a_wrong_keyword, "eager refuses too: the keyword is `key`")


@trigger("GB0134")
def group_nothing(x):
    return list(itertools.groupby()), x + 1


no_cure(group_nothing, "eager refuses too: there is nothing to group")


@trigger("GB0268")
def product_with_a_wrong_keyword(x):
    return list(itertools.product([1, 2], times=2)), x + 1


no_cure(product_with_a_wrong_keyword, "eager refuses too: the keyword is `repeat`")


@trigger("GB0258")
def deque_of_too_much(x):
    return collections.deque([x], 1, 2)


no_cure(deque_of_too_much, "eager refuses too: a deque takes an iterable and a length")


@trigger("GB0260")
def partial_of_nothing(x):
    return functools.partial()(x)


no_cure(partial_of_nothing, "eager refuses too: there is nothing to call")


@trigger("GB0222", lambda: (torch.ones(3), {torch.ones(3)}))
def set_of_tensors(x, several):
    return x + sum(several)


no_cure(set_of_tensors, "a set of tensors has no order that a guard could hold: hand over a list")


@trigger("GB0198", lambda: (torch.ones(3), *(lambda table: (table, types.MappingProxyType(table)))({"a": 1})))
def change_under_a_read_only_view(x, table, view):
    table["b"] = 2
    return x + view["b"]


@cures(change_under_a_read_only_view)
def read_what_was_written(x, table, view):
    table["b"] = 2
    return x + table["b"]


@trigger("GB0204", lambda: (torch.ones(3), types.MappingProxyType({(1, len): 1})))
def read_only_view_with_a_function_as_key(x, table):
    return x + len(table)


no_cure(read_only_view_with_a_function_as_key, "its keys must be plain constants: hand over the dictionary")


@trigger("GB0203", lambda: (torch.ones(3), {len: 1, (2, max): 3}.keys()))
def keys_that_are_functions(x, keys):
    return x + len(keys)


no_cure(keys_that_are_functions, "its keys must be plain constants: hand over the dictionary")


@trigger("GB9137")
def type_hint_of_a_tensor(x):
    return typing.Optional[x]


no_cure(type_hint_of_a_tensor, "a hint made of a tensor is no type: Python only does not look")


@trigger("GB0147")
def call_what_cannot_be_called(x):
    return slice(0, 2)(x)


no_cure(call_what_cannot_be_called, "eager refuses too: a slice cannot be called")


@trigger("GB0156")
def call_a_missing_method(x):
    return (i for i in range(3)).missing(x)


no_cure(call_a_missing_method, "eager refuses too: there is no such method")


@trigger("GB0150")
def has_a_slice_it(x):
    return x + 1 if hasattr(slice(0, 2), "start") else x


@cures(has_a_slice_it)
def ask_the_class_for_it(x):
    return x + 1 if "start" in dir(slice) else x


@trigger("GB4501")
def return_an_identity(x):
    mark = []
    return x + 1, id(mark)


no_cure(return_an_identity, "the list exists only while tracing, so its address means nothing")


@trigger("GB9316")
def order_identities(x):
    first, second = [], []
    return x + 1 if id(first) < id(second) else x - 1


no_cure(order_identities, "the lists exist only while tracing, so the order of their addresses means nothing")


@trigger("GB0299")
def pattern_with_a_tensor(x):
    import re

    return re.compile("a").match(x)


no_cure(pattern_with_a_tensor, "eager refuses too: a tensor is no text")


@trigger("GB0292")
def matches_one_by_one(x):
    import re

    return x + len(list(re.compile("a").finditer("aba")))


@cures(matches_one_by_one)
def matches_at_once(x):
    import re

    return x + len(re.compile("a").findall("aba"))


@trigger("GB0297")
def random_with_a_keyword(x):
    import random

    return x + random.Random(x=3).random()


@cures(random_with_a_keyword)
def random_with_a_seed(x):
    import random

    return x + random.Random(3).random()


@trigger("GB6215")
def log_a_line(x):
    import logging

    logging.getLogger("atlas").debug("traced")
    return x + 1


@trigger("GB0291")
def log_by_a_logger(x):
    LOGGER.debug("traced")
    return x + 1


def tell(line):
    """A line in the log."""
    import logging

    logging.getLogger("atlas").debug(line)


@cures(log_a_line, "the line is logged once the graph has run", reorderable_logging_functions={tell})
@cures(log_by_a_logger, "the line is logged once the graph has run", reorderable_logging_functions={tell})
def log_after_the_graph(x):
    tell("traced")
    return x + 1


@trigger("GB0059")
def print_inside(x):
    print("x is", x)
    return x + 1


@cures(print_inside, "it prints once the graph has run", reorderable_logging_functions={print})
def print_after_the_graph(x):
    print("x is", x)
    return x + 1


@trigger("GB0007")
def warn_inside(x):
    warnings.warn("deprecated", stacklevel=1)
    return x + 1


@cures(warn_inside, "it warns once the graph has run", reorderable_logging_functions={warnings.warn})
def warn_after_the_graph(x):
    warnings.warn("deprecated", stacklevel=1)
    return x + 1


@trigger("GB0069")
def import_what_is_not_there(x):
    import no_such_module

    return x + no_such_module.one


no_cure(import_what_is_not_there, "eager raises ModuleNotFoundError too")


@trigger("GB0142", lambda: (torch.ones(3), functools.partial(max)))
def enter_what_is_no_manager(x, other):
    with other:
        return x + 1


no_cure(enter_what_is_no_manager, "eager refuses too: a partial is no context manager")


@trigger("GB0467")
def set_on_a_slice(x):
    slice(0, 2).start = 1
    return x


no_cure(set_on_a_slice, "eager refuses too: a slice is read-only")


@trigger("GB6053")
def representation_of_a_generator(x):
    return repr(i for i in range(3)), x


no_cure(representation_of_a_generator, "the text shows an address, which exists only when the program runs")


@trigger("GB4608")
def weak_reference_compared(x):
    import weakref

    return x + 1 if weakref.ref(weak_reference_compared) == weakref.ref(number_to_text) else x


@cures(weak_reference_compared)
def what_is_referred_to_compared(x):
    return x + 1 if weak_reference_compared is number_to_text else x


@trigger("GB4393")
def subclass_of_a_tensor(x):
    return issubclass(x, torch.Tensor)


no_cure(subclass_of_a_tensor, "eager refuses too: a tensor is no class")
