"""nn.Module, parameters, optimizers."""

import torch
from torch import nn

from ..entries import cures, no_cure, trigger


class HookedModule(nn.Module):
    """A module under a hook of its backward."""

    def forward(self, x):
        return x * 2


def hooked() -> nn.Module:
    """A module with a hook of its backward."""
    made = HookedModule()
    made.register_full_backward_hook(lambda module, before, after: None)
    return made


@trigger("GB0014", lambda: (torch.ones(2, 1, 3), nn.LSTM(3, 3)))
def recurrent_layer(x, layer):
    return layer(x)[0].sum()


@cures(recurrent_layer, allow_rnn=True)
def recurrent_layer_allowed(x, layer):
    return layer(x)[0].sum()


@trigger("GB0119", lambda: (torch.ones(3), nn.Module.__new__(nn.Identity)))
def module_that_was_not_made(x, module):
    return module(x)


no_cure(module_that_was_not_made, "eager refuses too: the module was not initialised")


@trigger("GB4695", lambda: (torch.ones(3), torch.jit.script(nn.Linear(3, 3))))
def scripted_module(x, module):
    return module(x)


no_cure(scripted_module, "a scripted module has its own compiler: hand over the module it was made from")


@trigger("GB0083", lambda: (torch.ones(3, requires_grad=True), hooked()), needs=(HookedModule, hooked))
def module_with_a_backward_hook(x, module):
    return module(x)


no_cure(module_with_a_backward_hook, "it needs compiled autograd, which captures the backward as a whole")


@trigger("GB0226")
def parameter_of_a_number(x):
    return nn.Parameter(3)


no_cure(parameter_of_a_number, "eager refuses too: a parameter is a tensor")


@trigger("GB0237", lambda: (torch.ones(3),))
def parameter_by_a_value(x):
    return nn.Parameter(x, requires_grad=x.sum() > 0)


no_cure(parameter_by_a_value, "eager refuses too: `requires_grad` is a bool")


@trigger("GB0264", graph_break_on_nn_param_ctor=True)
def parameter_made_inside(x):
    return x + nn.Parameter(x + 1).detach()


@cures(parameter_made_inside)
def value_made_inside(x):
    return x + (x + 1)


@trigger("GB0162", lambda: (torch.ones(3), nn.Linear(3, 3)))
def make_it_again(x, layer):
    super(nn.Linear, layer).__init__()
    return x


no_cure(make_it_again, "a module is made once, outside")


@trigger("GB0148", lambda: (torch.ones(3), torch.compiler.disable(nn.Identity())))
def disabled_module(x, module):
    return module(x) + 1


@cures(disabled_module)
def identity_inside(x, module):
    return nn.Identity.forward(module, x) + 1
