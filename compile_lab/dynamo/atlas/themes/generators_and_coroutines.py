"""Generators, coroutines and what is left half-way."""

import asyncio
import contextlib
import itertools

import torch

from ..entries import cures, no_cure, trigger


def count_up():
    """Numbers without end."""
    number = 0
    while True:
        number += 1
        yield number


@contextlib.contextmanager
def doubling(x):
    """A context that hands out twice its argument."""
    yield x * 2


@contextlib.contextmanager
def not_a_generator(x):
    """What should yield, and does not."""
    return x


async def later(x):
    """A coroutine."""
    return x + 1


@trigger("GB0003")
def be_a_generator(x):
    yield x + 1


no_cure(be_a_generator, "a generator runs piece by piece, a graph in one: compile the piece")


@trigger("GB2549", needs=(count_up,))
def take_all_of_an_endless_one(x):
    return x + sum(number for number in count_up() if number < 3)


no_cure(take_all_of_an_endless_one, "eager does not end either")


@trigger("GB0092", needs=(count_up,))
def return_a_generator(x):
    return x + 1, count_up()


no_cure(return_a_generator, "")


@trigger("GB0253", lambda: (torch.ones(3), (i for i in range(3))))
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


@trigger("GB0094", needs=(later,))
def run_a_coroutine(x):
    return asyncio.run(later(x))


no_cure(run_a_coroutine, "an event loop is the program's affair: compile what the coroutine computes")


@trigger("GB8335")
def return_a_writing_generator(x):
    seen = []

    def writing():
        for number in range(3):
            seen.append(number)
            yield x + number

    return writing(), seen


no_cure(return_a_writing_generator, "")


@trigger("GB0192")
def take_of_a_cycle(x):
    return x + sum(itertools.islice(itertools.cycle([1, 2]), 3))


no_cure(take_of_a_cycle, "")
