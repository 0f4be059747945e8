"""Gradients inside a step: `backward`, `autograd.grad`, hooks and functions of one's own."""

import torch
from torch.autograd import Function

from ..entries import cures, no_cure, trigger


def leaf() -> tuple[torch.Tensor]:
    """A tensor that requires a gradient."""
    return (torch.arange(1.0, 4.0).requires_grad_(),)


def made() -> tuple[torch.Tensor]:
    """A tensor that was computed from one that requires a gradient."""
    return (torch.arange(1.0, 4.0).requires_grad_() * 2,)


class OwnJvp(Function):
    """Brings its own forward-mode derivative."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 2


class OwnVjp(Function):
    """Calls its backward by another name."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def vjp(ctx, grad):
        return grad * 2


class TwiceBackward(Function):
    """Doubles, and doubles the gradient: what the two above do otherwise."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class WritesUnreturned(Function):
    """Says that it wrote into its input, and does not return it."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class OnlyByKeyword(Function):
    """Takes an argument by name only."""

    @staticmethod
    def forward(ctx, x, *, scale):
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class ForwardByC(Function):
    """Its forward is written in C."""

    forward = torch.add
    backward = staticmethod(lambda ctx, grad: grad)


class AddsTwo(Function):
    """A sum, with a gradient for each."""

    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


@trigger("GB0144", leaf, needs=(OwnJvp,))
def function_with_its_own_jvp(x):
    return OwnJvp.apply(x)


@cures(function_with_its_own_jvp, "without the jvp, so without forward-mode derivatives")
def function_without_its_own_jvp(x):
    return TwiceBackward.apply(x)


@trigger("GB0145", leaf, needs=(OwnVjp,))
def function_with_its_own_vjp(x):
    return OwnVjp.apply(x)


@cures(function_with_its_own_vjp)
def function_with_a_backward(x):
    return TwiceBackward.apply(x)


@trigger("GB2464", made, needs=(WritesUnreturned,))
def function_that_writes_and_clones(x):
    return WritesUnreturned.apply(x)


no_cure(function_that_writes_and_clones, "eager refuses too: an input that is marked as written must be returned")


@trigger("GB4372", leaf, needs=(OnlyByKeyword,))
def function_with_a_keyword(x):
    return OnlyByKeyword.apply(x, scale=2)


no_cure(function_with_a_keyword, "eager refuses too: `apply` takes no keywords")


@trigger("GB0346", leaf, needs=(ForwardByC,))
def function_with_a_c_forward(x):
    return ForwardByC.apply(x)


no_cure(function_with_a_c_forward, "eager refuses too: `forward` is given a context, which `add` does not take")


@trigger("GB6297", leaf, needs=(AddsTwo,))
def function_of_one_tensor_twice(x):
    return AddsTwo.apply(x, x)


@cures(function_of_one_tensor_twice)
def function_of_a_tensor_and_its_view(x):
    return AddsTwo.apply(x, x.view_as(x))


@trigger("GB0140", leaf, needs=(TwiceBackward,))
def another_method_of_a_function(x):
    return TwiceBackward.mro() and x


no_cure(another_method_of_a_function, "query what a class is made of outside: only its `apply` is traced")


@trigger("GB0123", leaf, trace_autograd_ops=False)
def backward_untraced(x):
    y = (x * 2).sum()
    y.backward()
    return y.detach()


@cures(backward_untraced, trace_autograd_ops=True)
def backward_traced(x):
    y = (x * 2).sum()
    y.backward()
    return y.detach()


@trigger("GB9186", leaf, trace_autograd_ops=False)
def grad_untraced(x):
    return torch.autograd.grad((x * 2).sum(), x)[0]


@cures(grad_untraced, trace_autograd_ops=True)
def grad_traced(x):
    return torch.autograd.grad((x * 2).sum(), x)[0]


@trigger("GB7054", leaf, trace_autograd_ops=True)
def backward_to_what_is_no_leaf(x):
    y = x * 2
    y.sum().backward(inputs=[y])
    return y.detach()


no_cure(backward_to_what_is_no_leaf, "an intermediate has no `.grad` in a graph: take `torch.autograd.grad` to it")


@trigger("GB1042", leaf, trace_autograd_ops=True)
def backward_to_a_tensor_made_inside(x):
    y = torch.zeros(3).requires_grad_()
    (x * y).sum().backward(inputs=[y])
    return y.grad


@cures(backward_to_a_tensor_made_inside, trace_autograd_ops=True)
def grad_to_a_tensor_made_inside(x):
    y = torch.zeros(3).requires_grad_()
    return torch.autograd.grad((x * y).sum(), y)[0]


@trigger("GB0442", leaf, trace_autograd_ops=True)
def backward_to_nothing(x):
    (x * 2).sum().backward(inputs=[])
    return x.detach()


no_cure(backward_to_nothing, "eager refuses too: there must be a leaf")


@trigger("GB0372", made, trace_autograd_ops=True)
def grad_through_what_came_in(x):
    return torch.autograd.grad((x * 2).sum(), x.clone(), allow_unused=True)


no_cure(grad_through_what_came_in, "the graph behind an argument was made outside, where no graph can go")


@trigger("GB4927", leaf, trace_autograd_ops=True)
def grad_and_its_sum(x):
    y = (x * x).sum()
    return y, torch.autograd.grad(y, x)[0]


@cures(grad_and_its_sum, trace_autograd_ops=True)
def grad_of_a_second_sum(x):
    return (x * x).sum(), torch.autograd.grad((x * x).sum(), x)[0]


@trigger("GB6663", leaf, trace_autograd_ops=True)
def grad_to_a_number(x):
    return torch.autograd.grad((x * x).sum(), 3)


no_cure(grad_to_a_number, "eager refuses too: gradients are of tensors")


@trigger("GB1724", leaf, trace_autograd_ops=True)
def grad_to_a_dictionary(x):
    return torch.autograd.grad((x * x).sum(), {x: x})


no_cure(grad_to_a_dictionary, "a dictionary with tensors as keys cannot leave a graph: ask for a tuple of gradients")


@trigger("GB5748", lambda: (*leaf(), torch.autograd.graph.get_gradient_edge(made()[0])), trace_autograd_ops=True)
def grad_to_an_edge(x, edge):
    return torch.autograd.grad((x * x).sum(), [edge])


no_cure(grad_to_an_edge, "eager refuses too: the edge belongs to another graph")


@trigger("GB7444", leaf)
def hook_on_strides(x):
    y = x * 2
    y.register_hook(lambda grad: grad * 2 if grad.is_contiguous() else grad)
    return y


@cures(hook_on_strides, "for a gradient that is contiguous: the hook no longer asks")
def hook_on_values(x):
    y = x * 2
    y.register_hook(lambda grad: grad * 2)
    return y


@trigger("GB0013", lambda: (*leaf(), torch.ones(1).requires_grad_().register_hook(lambda grad: grad)))
def take_a_hooks_handle(x, handle):
    handle.remove()
    return x + 1


no_cure(take_a_hooks_handle, "the handle of a hook that was set outside is removed outside")


@trigger("GB0100", leaf)
def keep_a_hooks_handle(x):
    global HANDLE
    HANDLE = x.register_hook(lambda grad: grad * 2)
    return x + 1


no_cure(keep_a_hooks_handle, "a handle that is kept for the program is made by the program")


@trigger("GB0165", leaf)
def ask_the_engine(x):
    torch.autograd.Variable._execution_engine.is_checkpoint_valid()
    return x + 1


no_cure(ask_the_engine, "the engine's state is not a graph's")


@trigger("GB0166", leaf)
def call_back_after_backward(x):
    torch.autograd.Variable._execution_engine.queue_callback(lambda: None)
    return x + 1


no_cure(call_back_after_backward, "eager refuses too: callbacks are queued while a backward runs")


def of_two_dtypes() -> tuple[torch.Tensor]:
    """A tensor whose gradient has another dtype."""
    (x,) = leaf()
    x.grad = torch.ones(3)
    x.grad.data = torch.ones(3, dtype=torch.float64)
    return (x,)


@trigger("GB0181", of_two_dtypes)
def gradient_of_another_dtype(x):
    return x + 1


no_cure(gradient_of_another_dtype, "a gradient that has not its tensor's dtype came in that way: convert it outside")


@trigger("GB7324", leaf)
def return_a_leaf_made_inside(x):
    return torch.zeros(3).requires_grad_() * x


no_cure(return_a_leaf_made_inside, "the new leaf would be an intermediate of the graph: make it outside, hand it over")
