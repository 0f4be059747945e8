"""Generators, coroutines and what is left half-way."""

import contextlib

import torch

from ..entries import no_cure, trigger


@contextlib.contextmanager
def doubling(x):
    """A context that hands out twice its argument."""
    yield x * 2


@contextlib.contextmanager
def not_a_generator(x):
    """What should yield, and does not."""
    return x


@trigger("GB4347", lambda: (torch.ones(3), (i for i in range(3))))
def continue_a_generator(x, numbers):
    return x + next(numbers)


no_cure(continue_a_generator, "how far a generator has come is no state that Dynamo could keep: hand over its numbers")


@trigger("GB0253", lambda: (torch.ones(3), (i for i in range(3))))
def send_to_a_generator(x, numbers):
    return x + numbers.send(None)


no_cure(send_to_a_generator, "how far a generator has come is no state that Dynamo could keep: hand over its numbers")


@trigger("GB2533", needs=(doubling,))
def return_a_context(x):
    return x + 1, doubling(x)


no_cure(return_a_context, "a context that has not been entered cannot leave the graph: make it outside")


@trigger("GB0221", needs=(not_a_generator,))
def enter_what_does_not_yield(x):
    with not_a_generator(x) as y:
        return y


no_cure(enter_what_does_not_yield, "eager refuses too: the function does not yield")
