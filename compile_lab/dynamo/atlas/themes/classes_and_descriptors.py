"""Classes, descriptors and attributes: what a user's object does when it is read, written, compared or called."""

import collections
import dataclasses
import datetime
import decimal
import typing

import torch

from ..entries import cures, no_cure, trigger


class PlainPoint:
    """An object with a coordinate, for what is done to it."""

    def __init__(self, x=1):
        self.x = x


class OtherPoint(PlainPoint):
    """The same, of another class."""


class CalledByC:
    """Its missing attributes are found by a C function."""

    __getattr__ = str.__add__


class SuperValue(PlainPoint):
    """Calls what is no function in its parent."""

    def call(self):
        return super().__dict__()


class Options(typing.TypedDict, total=False):
    """A dictionary whose key may be missing."""

    lr: float


@trigger("GB4271", lambda: (torch.ones(3), PlainPoint()), needs=(PlainPoint, OtherPoint))
def change_the_class(x, point):
    point.__class__ = OtherPoint
    return x + point.x


no_cure(change_the_class, "an object's class is guarded, and cannot change inside: change it outside")


@trigger("GB0254", lambda: (torch.ones(3), PlainPoint()), needs=(PlainPoint,))
def set_by_a_computed_name(x, point):
    point.__setattr__(x, 3)
    return x


no_cure(set_by_a_computed_name, "eager refuses too: an attribute's name is text")


@trigger("GB0256", lambda: (torch.ones(3), CalledByC()), needs=(CalledByC,))
def attribute_found_by_c(x, thing):
    return x + thing.missing


no_cure(attribute_found_by_c, "eager refuses too: the function wants text")


@trigger("GB0006", lambda: (torch.ones(3), SuperValue()), needs=(SuperValue,))
def call_a_parents_value(x, thing):
    return thing.call()


no_cure(call_a_parents_value, "eager refuses too: a dictionary cannot be called")


@trigger("GB0257", needs=(Options,))
def typed_dictionary(x):
    return x * Options(lr=0.5)["lr"]


@cures(typed_dictionary)
def plain_dictionary(x):
    options: Options = {"lr": 0.5}
    return x * options["lr"]


@trigger("GB0005", lambda: (torch.ones(3), decimal.Decimal(1)))
def text_of_a_decimal(x, number):
    return x + float(str(number))


no_cure(text_of_a_decimal, "its text is made in C: make it outside")


@trigger("GB0808", lambda: (torch.ones(3), datetime.timedelta(1)))
def add_durations(x, span):
    return x + (span + span).days


@cures(add_durations)
def add_days(x, span):
    return x + (span.days + span.days)


@trigger("GB0193")
def super_with_one_argument(x):
    return super(PlainPoint).x


no_cure(super_with_one_argument, "eager refuses too: such a `super` is bound to nothing")


@trigger("GB0180")
def fields_of_a_number(x):
    return dataclasses.fields(3)


no_cure(fields_of_a_number, "eager refuses too: 3 is no record")


@trigger("GB8977")
def class_made_inside(x):
    class Local(typing.NamedTuple):
        y: torch.Tensor

    return Local(x + 1).y


LocalAtHome = collections.namedtuple("LocalAtHome", "y")


@cures(class_made_inside)
def class_made_outside(x):
    return LocalAtHome(x + 1).y


@trigger("GB0201")
def named_tuple_of_tensors(x):
    return collections.namedtuple("Row", [x, x])


no_cure(named_tuple_of_tensors, "eager refuses too: field names are text")


@trigger("GB7637", lambda: (torch.ones(3), PlainPoint()), needs=(PlainPoint,))
def replace_attributes_by_numbers(x, point):
    point.__dict__ = {1: 2}
    return x + len(point.__dict__)


no_cure(replace_attributes_by_numbers, "an attribute's name is text, and what is stored under a number is no attribute")


@trigger("GB2404", needs=(PlainPoint,))
def make_what_is_abstract(x):
    return collections.abc.Sized()


no_cure(make_what_is_abstract, "eager raises TypeError too: the class is abstract")


@trigger("GB2852", lambda: (torch.ones(3), decimal.Decimal(1)))
def representation_of_a_decimal(x, number):
    return x + len(repr(number))


no_cure(representation_of_a_decimal, "its text is made in C: make it outside")


@trigger("GB0682")
def hash_a_method(x):
    return x + hash(x.sum)


no_cure(hash_a_method, "a method's hash is an address")
