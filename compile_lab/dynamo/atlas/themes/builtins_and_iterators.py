"""Python's builtins, iterators and containers, where Dynamo has no rule for them."""

import collections
import functools
import itertools
import operator
import types
import typing

import torch

from ..entries import cures, no_cure, trigger


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


@trigger("GB0174")
def cast_to_nothing(x):
    return typing.cast(torch.Tensor)


no_cure(cast_to_nothing, "eager refuses too: `cast` takes a type and a value")


@trigger("GB0258")
def deque_of_too_much(x):
    return collections.deque([x], 1, 2)


no_cure(deque_of_too_much, "eager refuses too: a deque takes an iterable and a length")


@trigger("GB0260")
def partial_of_nothing(x):
    return functools.partial()(x)


no_cure(partial_of_nothing, "eager refuses too: there is nothing to call")


@trigger("GB0097", lambda: (torch.ones(3), collections.deque([1, 2], maxlen=2)))
def push_onto_a_short_deque(x, last):
    last.append(3)
    return x + last[0]


no_cure(push_onto_a_short_deque, "Dynamo writes an argument's deque back by clearing and extending it, which it does not do for one with a `maxlen`")


@trigger("GB0222", lambda: (torch.ones(3), {torch.ones(3)}))
def set_of_tensors(x, several):
    return x + sum(several)


no_cure(set_of_tensors, "a set of tensors has no order that a guard could hold: hand over a list")


@trigger("GB0183")
def keys_from_tensors(x):
    return dict.fromkeys(3, x)


no_cure(keys_from_tensors, "eager refuses too: 3 cannot be iterated")


@trigger("GB0278")
def counter_from_keys(x):
    return collections.Counter.fromkeys("ab", 1), x + 1


no_cure(counter_from_keys, "eager refuses too: `Counter.fromkeys` is undefined")


@trigger("GB0196", lambda: (torch.ones(3), {"a": 1}))
def missing_key(x, table):
    return x + table["b"]


no_cure(missing_key, "eager raises KeyError too")


@trigger("GB0199", lambda: (torch.ones(3), types.MappingProxyType({"a": 1})))
def return_a_read_only_view(x, table):
    return x + table["a"], table


no_cure(return_a_read_only_view, "a view that came in cannot go out again: the caller has it already")


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


@trigger("GB0137")
def slice_with_an_unknown_attribute(x):
    part = slice(0, 2)
    return x[part] + part.length


no_cure(slice_with_an_unknown_attribute, "eager refuses too: a slice has no `length`")


@trigger("GB0137")
def documentation_of_a_slice(x):
    return x + len(slice(0, 2).__doc__)


@cures(documentation_of_a_slice)
def documentation_of_the_class(x):
    return x + len(slice.__doc__)


@trigger("GB0289")
def method_of_a_type_hint(x):
    return typing.Optional.__repr__(), x + 1


no_cure(method_of_a_type_hint, "eager refuses too: the method wants an object")


@trigger("GB9137")
def type_hint_of_a_tensor(x):
    return typing.Optional[x]


no_cure(type_hint_of_a_tensor, "eager refuses too: a tensor is no type")


@trigger("GB0811")
def iterate_over_an_object(x):
    return list(functools.partial(max))


no_cure(iterate_over_an_object, "eager refuses too: a partial cannot be iterated")


@trigger("GB4411")
def look_inside_a_function(x):
    return x + 1 if 1 in look_inside_a_function else x


no_cure(look_inside_a_function, "eager refuses too: a function contains nothing")


@trigger("GB0147")
def call_what_cannot_be_called(x):
    return slice(0, 2)(x)


no_cure(call_what_cannot_be_called, "eager refuses too: a slice cannot be called")


@trigger("GB0156")
def call_a_missing_method(x):
    return (i for i in range(3)).missing(x)


no_cure(call_a_missing_method, "eager refuses too: there is no such method")


@trigger("GB0150")
def has_a_partial_it(x):
    return x + 1 if hasattr(slice(0, 2), "start") else x


@cures(has_a_partial_it)
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


@trigger("GB1297")
def list_that_holds_itself(x):
    ring = [x + 1]
    ring.append(ring)
    return ring


no_cure(list_that_holds_itself, "Dynamo builds results from the inside out, and a ring has no inside: return its parts")


@trigger("GB0296")
def print_an_object(x):
    print(functools.partial)
    return x + 1


no_cure(print_an_object, "")


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


@trigger("GB0291")
def log_a_line(x):
    import logging

    logging.getLogger("atlas").debug("traced")
    return x + 1


no_cure(log_a_line, "a graph does not log: Dynamo's `ignore_logging_functions` leaves the line out, which is another thing")


@trigger("GB0075")
def sum_from_an_operator(x):
    return functools.reduce(operator.add, x.tolist())


no_cure(sum_from_an_operator, "")


@trigger("GB0069")
def import_what_is_not_there(x):
    import no_such_module

    return x + no_such_module.one


no_cure(import_what_is_not_there, "eager raises ModuleNotFoundError too")


@trigger("GB0020")
def text_with_two_tensors(x):
    return f"{x.sum()} and {x.mean()}"


no_cure(text_with_two_tensors, "the text shows values, which exist only when the graph has run: write it outside")


@trigger("GB0021")
def text_with_an_objects_form(x):
    return f"{x.shape[0]:{x}}"


no_cure(text_with_an_objects_form, "the text depends on a value: write it outside")


@trigger("GB0142", lambda: (torch.ones(3), functools.partial(max)))
def enter_what_is_no_manager(x, other):
    with other:
        return x + 1


no_cure(enter_what_is_no_manager, "eager refuses too: a partial is no context manager")


@trigger("GB0193")
def iterate_wrongly(x):
    return iter(1, 2, 3)


no_cure(iterate_wrongly, "eager refuses too: `iter` takes at most two arguments")


@trigger("GB0186", lambda: (torch.ones(3), functools.partial(torch.add, **{"other": 1})))
def partial_with_a_keyword(x, add):
    return add(x)


no_cure(partial_with_a_keyword, "")


@trigger("GB0467")
def set_on_a_slice(x):
    setattr(slice(0, 2), "start", 1)
    return x


no_cure(set_on_a_slice, "eager refuses too: a slice is read-only")


@trigger("GB7786")
def write_into_a_range(x):
    range(3)[0] = 1
    return x


no_cure(write_into_a_range, "eager refuses too: a range is read-only")


@trigger("GB4880")
def index_a_function(x):
    return index_a_function[0]


no_cure(index_a_function, "eager refuses too: a function has no parts")


@trigger("GB2483")
def text_of_a_generator(x):
    return str(i for i in range(3)), x


no_cure(text_of_a_generator, "the text shows an address, which exists only when the program runs")


@trigger("GB6053")
def representation_of_a_generator(x):
    return repr(i for i in range(3)), x


no_cure(representation_of_a_generator, "the text shows an address, which exists only when the program runs")


@trigger("GB1752")
def weak_reference_compared(x):
    import weakref

    return x + 1 if weakref.ref(weak_reference_compared) == weakref.ref(number_to_text) else x


no_cure(weak_reference_compared, "")


@trigger("GB9648")
def compare_iterators(x):
    return x + 1 if map(len, []) == map(len, []) else x


no_cure(compare_iterators, "")


@trigger("GB3006")
def add_functions(x):
    return slice(0, 1) + slice(1, 2)


no_cure(add_functions, "eager refuses too: slices cannot be added")


@trigger("GB0755")
def negate_a_slice(x):
    return -slice(0, 1)


no_cure(negate_a_slice, "eager refuses too: a slice has no negative")


@trigger("GB4347")
def next_of_a_cycle(x):
    return next(itertools.tee([x + 1])[0])


no_cure(next_of_a_cycle, "")


@trigger("GB4393")
def subclass_of_a_tensor(x):
    return issubclass(x, torch.Tensor)


no_cure(subclass_of_a_tensor, "eager refuses too: a tensor is no class")


@trigger("GB0175")
def kind_of_a_handle(x):
    return x + 1 if isinstance(kind_of_a_handle.__get__(x), types.MethodType) else x


no_cure(kind_of_a_handle, "")
