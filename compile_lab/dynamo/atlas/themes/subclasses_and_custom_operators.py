"""Tensor subclasses, operators of one's own, functions that are not traced strictly."""

import sys
import types

import torch

from ...._torch.breaks import elementwise_dtypes, invoke_subgraph, nonstrict_trace
from ..entries import cures, no_cure, trigger


class OwnsSin(torch.Tensor):
    """Has a `sin` of its own, and an attribute."""

    def sin(self):
        return self + 1

    T = 3


class PlainSubclass(torch.Tensor):
    """A tensor by another name."""


class OpaqueSettings:
    """What an operator cannot take."""


@torch.library.custom_op("atlas::with_fake", mutates_args=())
def with_fake(x: torch.Tensor) -> torch.Tensor:
    """The same, and it says so."""
    return x + 1


@with_fake.register_fake
def _with_fake(x):
    return torch.empty_like(x)


_LIBRARY = torch.library.Library("atlas", "FRAGMENT")
_LIBRARY.define("not_compliant(Tensor x) -> Tensor")
_LIBRARY.impl("not_compliant", lambda x: x + 1, "CompositeImplicitAutograd")


@nonstrict_trace
def loosely(x, other):
    """A function that is traced without Dynamo."""
    return x + 1


@nonstrict_trace
def loosely_an_object(x):
    """One that gives an object."""
    return OpaqueSettings()


@torch.compiler.assume_constant_result
def always_the_same(values):
    """A function whose result is a constant."""
    return 3


class PartlyLeftOut:
    """An object with a method that is kept out of graphs."""

    @torch.compiler.disable
    def left_out(self, x):
        return x + 1

    def __setitem__(self, at, value):
        self.at = value

    def drop(self, name):
        super().__delattr__(name)


@trigger("GB0164", lambda: (torch.ones(3).as_subclass(OwnsSin),), needs=(OwnsSin,))
def overridden_attribute(x):
    return x.T


no_cure(overridden_attribute, "only properties and methods can be traced: make the attribute a property")


@trigger("GB0163", lambda: (torch.ones(3).as_subclass(PlainSubclass),), needs=(PlainSubclass,))
def gradient_of_a_subclass(x):
    return x.grad


no_cure(gradient_of_a_subclass, "a subclass's gradient is read outside")


@trigger("GB0026", needs=(PlainSubclass,))
def subclass_of_two(x):
    return PlainSubclass(x, x)


no_cure(subclass_of_two, "eager refuses too: a tensor is made from one")


@trigger("GB0043", only_allow_pt2_compliant_ops=True)
def operator_that_is_not_compliant(x):
    return torch.ops.atlas.not_compliant(x)


@cures(operator_that_is_not_compliant, only_allow_pt2_compliant_ops=True)
def operator_that_is_compliant(x):
    return with_fake(x)


@trigger("GB0017")
def subgraph_by_hand(x):
    return invoke_subgraph(torch.sin, "one", x)


no_cure(subgraph_by_hand, "the operator is torch's own: `torch.compiler.nested_compile_region` makes what it takes")


@trigger("GB5195")
def common_dtype_of_a_list(x):
    from ...._torch.breaks import promotion

    return x.to(elementwise_dtypes(x, x.sum, type_promotion_kind=promotion)[1])


no_cure(common_dtype_of_a_list, "eager refuses too: a method has no dtype")


@trigger("GB6735")
def triton_with_options(x):
    return torch.library.wrap_triton(torch.sin, 3)(x)


no_cure(triton_with_options, "eager refuses too: it takes a kernel alone")


@trigger("GB0360")
def guard_on_a_tensor(x):
    return x + torch.fx.experimental.symbolic_shapes.guard_scalar(x)


no_cure(guard_on_a_tensor, "eager refuses too: a tensor is no scalar")


@trigger("GB5173")
def two_devices(x):
    return x + torch.ones(3, device="meta")


no_cure(two_devices, "eager refuses too: the tensors lie on two devices")


@trigger("GB0064", lambda: (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),))
def quantized_tensor(x):
    return x.dequantize() + 1


no_cure(quantized_tensor, "a tensor that carries its scale cannot come in: dequantize outside")


@trigger("GB0087")
def to_another_layout(x):
    return x.to_mkldnn().to_dense() + 1


@cures(to_another_layout)
def in_its_own_layout(x):
    return x.clone() + 1


@trigger("GB2520", needs=(always_the_same,))
def constant_of_tensors(x):
    return x + always_the_same([x])


@cures(constant_of_tensors, "the function does not use its argument")
def constant_of_nothing(x):
    return x + always_the_same(None)


@trigger("GB0099", lambda: (torch.ones(3), PartlyLeftOut()), needs=(PartlyLeftOut,))
def call_a_disabled_method(x, thing):
    return thing.left_out(x) * 2


@cures(call_a_disabled_method)
def do_what_the_method_does(x, thing):
    return (x + 1) * 2


@trigger("GB0131", needs=(PartlyLeftOut,))
def item_of_another(x):
    PartlyLeftOut.__setitem__(x, 0, 3)
    return x


no_cure(item_of_another, "the method writes an attribute of a tensor that the class knows nothing of")


@trigger("GB0084", lambda: (torch.ones(3), PartlyLeftOut()), needs=(PartlyLeftOut,))
def delete_by_a_tensor(x, thing):
    thing.drop(x)
    return x


no_cure(delete_by_a_tensor, "eager refuses too: an attribute's name is text")


@trigger("GB0236", lambda: (torch.ones(3), OpaqueSettings()), needs=(OpaqueSettings, loosely))
def object_to_a_loose_function(x, settings):
    return loosely(x, settings)


@cures(object_to_a_loose_function, "the function does not use the object: a number stands in its place")
def number_to_a_loose_function(x, settings):
    return loosely(x, 0)


@trigger("GB0251", needs=(OpaqueSettings, loosely_an_object))
def object_from_a_loose_function(x):
    return loosely_an_object(x)


no_cure(object_from_a_loose_function, "only tensors and plain values come out of a graph: return those")


@trigger("GB0022", lambda: (sys.modules.update(atlas_settings=types.SimpleNamespace(scale=2)), torch.ones(3))[1:])
def import_what_is_no_module(x):
    import atlas_settings

    return x * atlas_settings.scale


no_cure(import_what_is_no_module, "what stands among the modules and is none cannot be guarded: hand it over")


@trigger("GB0200", inject_BUILD_SET_unimplemented_TESTING_ONLY=True)
def set_under_test(x):
    n = x.shape[0]
    return x + len({n, 2})


@cures(set_under_test)
def set_as_usual(x):
    n = x.shape[0]
    return x + len({n, 2})


class MethodByC(torch.autograd.Function):
    """Its forward is a function of torch's."""

    forward = torch.neg


@trigger("GB0140", needs=(MethodByC,))
def call_a_c_forward(x):
    return MethodByC.forward(x)


@cures(call_a_c_forward)
def call_what_it_is(x):
    return torch.neg(x)


@trigger("GB1584")
def text_of_a_closure(x):
    return x + 1, len(repr(lambda: x)) > 0


@trigger("GB0092")
def return_a_match(x):
    import re

    return x + 1, re.match("a", "ab")


@trigger("GB0190")
def attribute_by_a_tensor(x):
    return getattr(x, x)


no_cure(attribute_by_a_tensor, "eager refuses too: an attribute's name is text")


@trigger("GB0058")
def write_a_derived_attribute(x):
    x.real = x * 2
    return x


@trigger("GB5849", lambda: (torch.ones(3), OpaqueSettings()))
def attributes_by_tensors_of_an_object(x, settings):
    settings.__dict__ = {x: 1}
    return x + len(settings.__dict__)


no_cure(attributes_by_tensors_of_an_object, "an attribute's name is text, and a tensor is none")


no_cure(return_a_match, "a match is written in C and cannot be built again: return what you need of it")


@cures(text_of_a_closure, "the text is never empty: the answer is written down")
def text_of_a_closure_known(x):
    return x + 1, True


@cures(write_a_derived_attribute)
def write_the_values(x):
    x.copy_(x * 2)
    return x
