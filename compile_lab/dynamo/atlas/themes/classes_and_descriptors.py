"""Classes, descriptors and attributes: what a user's object does when it is read, written, compared or called."""

import array
import collections
import copy
import dataclasses
import datetime
import decimal
import fractions
import threading
import types
import typing

import torch

from ..entries import cures, no_cure, trigger


class OddMeta(type):
    """Answers for its classes' attributes itself."""

    def __getattribute__(cls, name):
        return type.__getattribute__(cls, name)


class OddlyRead(metaclass=OddMeta):
    """A class whose attributes go through its metaclass."""

    factor = 2


class PlainPoint:
    """An object with a coordinate, for what is done to it."""

    def __init__(self, x=1):
        self.x = x


class OtherPoint(PlainPoint):
    """The same, of another class."""


class SlottedPoint:
    """An object whose attribute is a descriptor written in C."""

    __slots__ = ("x", "__weakref__")

    def __init__(self):
        self.x = 1


class HashedByTensor:
    """Its hash depends on a value."""

    def __init__(self, x):
        self.x = x

    def __hash__(self):
        return self.x.sum().int().item()


class LongAsATensor:
    """Its truth depends on a value."""

    def __init__(self, x):
        self.x = x

    def __bool__(self):
        return self.x.sum() > 0


class CalledByC:
    """Its missing attributes are found by a C function."""

    __getattr__ = str.__add__


class BareSuper:
    """Deletes an attribute by `super()`."""

    def __init__(self):
        self.x = 1

    def __delattr__(self, name):
        super().__delattr__(name)


class SuperValue(PlainPoint):
    """Calls what is no function in its parent."""

    def call(self):
        return super().__dict__()


class Options(typing.TypedDict, total=False):
    """A dictionary whose key may be missing."""

    lr: float


class Indexed:
    """Its `__len__` is a C function."""

    __len__ = len


@dataclasses.dataclass(frozen=True)
class FrozenTotal:
    """A frozen record that computes when it is made."""

    x: torch.Tensor

    def __post_init__(self):
        object.__setattr__(self, "total", self.x.sum())


@trigger("GB5458", needs=(OddMeta, OddlyRead))
def read_through_a_metaclass(x):
    return x * OddlyRead.factor


@cures(read_through_a_metaclass)
def read_before(x, factor=OddlyRead.factor):
    return x * factor


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


@trigger("GB0010", lambda: (torch.ones(3), PlainPoint()), needs=(PlainPoint,))
def read_what_was_deleted(x, point):
    del point.x
    return x + point.x


no_cure(read_what_was_deleted, "eager raises AttributeError too")


@trigger("GB3697", lambda: (torch.ones(3), types.SimpleNamespace(f=copy.copy)))
def write_a_c_attribute(x, space):
    space.f.__doc__ = "new"
    return x


no_cure(write_a_c_attribute, "what is written in C is written outside")


@trigger("GB3697", lambda: (torch.ones(3), array.array("i", [1])))
def read_an_array(x, numbers):
    return x + numbers[0]


@cures(read_an_array)
def read_an_arrays_list(x, numbers):
    return x + numbers.tolist()[0]


@trigger("GB0871", needs=(HashedByTensor,))
def key_hashed_by_a_value(x):
    return {HashedByTensor(x): x}


no_cure(key_hashed_by_a_value, "where a key lies in a dictionary is decided by a value")


@trigger("GB0035", needs=(LongAsATensor,))
def branch_on_an_object(x):
    return x + 1 if LongAsATensor(x) else x


no_cure(branch_on_an_object, "eager refuses too: `__bool__` must return a bool")


@trigger("GB0256", lambda: (torch.ones(3), CalledByC()), needs=(CalledByC,))
def attribute_found_by_c(x, thing):
    return x + thing.missing


no_cure(attribute_found_by_c, "eager refuses too: the function wants text")


@trigger("GB0004", lambda: (torch.ones(3), BareSuper()), needs=(BareSuper,))
def delete_by_super(x, thing):
    del thing.x
    return x + 1


no_cure(delete_by_super, "")


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


@trigger("GB6012", lambda: (torch.ones(3), Indexed()), needs=(Indexed,))
def length_by_c(x, thing):
    return x + len(thing)


no_cure(length_by_c, "eager refuses too: the length asks for itself without end")


@trigger("GB1220", lambda: (torch.ones(3), decimal.Decimal(1), decimal.Decimal(2)))
def compare_decimals(x, a, b):
    return x + 1 if a < b else x


no_cure(compare_decimals, "")


@trigger("GB2861", lambda: (torch.ones(3), datetime.datetime(2026, 1, 1)))
def hash_a_date(x, day):
    return x + len({day: 1})


no_cure(hash_a_date, "")


@trigger("GB0005", lambda: (torch.ones(3), decimal.Decimal(1)))
def text_of_a_decimal(x, number):
    return x + float(str(number))


no_cure(text_of_a_decimal, "its text is made in C: make it outside")


@trigger("GB0156", lambda: (torch.ones(3), decimal.Decimal(1)))
def multiply_a_decimal(x, number):
    return x + float(number * 2)


no_cure(multiply_a_decimal, "its arithmetic is written in C: compute outside")


@trigger("GB0156", lambda: (torch.ones(3), fractions.Fraction(1, 2)))
def multiply_a_fraction(x, number):
    return x + float(number * 2)


no_cure(multiply_a_fraction, "")


@trigger("GB0808", lambda: (torch.ones(3), datetime.timedelta(1)))
def add_durations(x, span):
    return x + (span + span).days


@cures(add_durations)
def add_days(x, span):
    return x + (span.days + span.days)


@trigger("GB3775", lambda: (torch.ones(3), decimal.Decimal(1)))
def whole_part_of_a_decimal(x, number):
    return x + int(number)


no_cure(whole_part_of_a_decimal, "its conversion is written in C: convert outside")


@trigger("GB7286", lambda: (torch.ones(3), decimal.Decimal(1)))
def decimal_as_a_float(x, number):
    return x + float(number)


no_cure(decimal_as_a_float, "its conversion is written in C: convert outside")


@trigger("GB9548", lambda: (torch.ones(3), datetime.timedelta(-1)))
def absolute_duration(x, span):
    return x + abs(span).days


no_cure(absolute_duration, "")


@trigger("GB0755", lambda: (torch.ones(3), datetime.timedelta(-1)))
def negative_duration(x, span):
    return x + (-span).days


no_cure(negative_duration, "")


@trigger("GB7510", lambda: (torch.ones(3), datetime.timedelta(-1)))
def positive_duration(x, span):
    return x + (+span).days


no_cure(positive_duration, "")


@trigger("GB0368", needs=(FrozenTotal,))
def frozen_record_that_computes(x):
    return FrozenTotal(x)


no_cure(frozen_record_that_computes, "")


@trigger("GB9277", needs=(PlainPoint,))
def bind_by_hand(x):
    return PlainPoint.__init__.__get__(x)


no_cure(bind_by_hand, "")


@trigger("GB0280")
def super_with_one_argument(x):
    return super(PlainPoint).x


no_cure(super_with_one_argument, "eager refuses too: such a `super` is bound to nothing")


@trigger("GB0007", lambda: (torch.ones(3), threading.Lock()))
def take_a_lock(x, lock):
    lock.acquire()
    y = x + 1
    lock.release()
    return y


no_cure(take_a_lock, "other threads see a lock while the step runs: take it outside")


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


@trigger("GB0271", needs=(PlainPoint,))
def write_a_class_after_reading_it(x):
    seen = len(PlainPoint.__dict__)
    PlainPoint.y = 3
    return x + seen


no_cure(write_a_class_after_reading_it, "")


@trigger("GB7637", lambda: (torch.ones(3), PlainPoint()), needs=(PlainPoint,))
def replace_attributes_by_numbers(x, point):
    point.__dict__ = {1: 2}
    return x + len(point.__dict__)


no_cure(replace_attributes_by_numbers, "")


@trigger("GB2404", needs=(PlainPoint,))
def make_what_is_abstract(x):
    return collections.abc.Sized()


no_cure(make_what_is_abstract, "eager raises TypeError too: the class is abstract")


@trigger("GB0252", lambda: (torch.ones(3), PlainPoint()), needs=(PlainPoint,))
def write_a_method_of_an_object(x, point):
    point.__init__ = len
    return x + point.x


no_cure(write_a_method_of_an_object, "")


@trigger("GB3241", lambda: (torch.ones(3), SlottedPoint()), needs=(SlottedPoint,))
def delete_a_slot(x, point):
    del point.x
    return x + 1


no_cure(delete_a_slot, "")


@trigger("GB2852", lambda: (torch.ones(3), decimal.Decimal(1)))
def representation_of_a_decimal(x, number):
    return x + len(repr(number))


no_cure(representation_of_a_decimal, "its text is made in C: make it outside")


@trigger("GB9522", lambda: (torch.ones(3), PlainPoint()))
def does_a_tuple_have_it(x, point):
    return x + 1 if hasattr((i for i in range(3)), "send") else x


no_cure(does_a_tuple_have_it, "")


@trigger("GB6890", lambda: (torch.ones(3), types.MappingProxyType({"a": 1})))
def hash_a_view(x, view):
    return x + hash(view)


no_cure(hash_a_view, "")


@trigger("GB4841")
def compare_a_partial(x):
    return x + 1 if type(super(PlainPoint, PlainPoint())) is super else x


no_cure(compare_a_partial, "")


@trigger("GB0682")
def hash_a_method(x):
    return x + hash(x.sum)


no_cure(hash_a_method, "a method's hash is an address")
