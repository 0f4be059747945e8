"""Context managers: those that Dynamo does not enter, and those that leave half-open."""

import contextlib
import threading

import torch

from ...._torch.breaks import pop_mode, unsafe_preserve_version_counter
from ..entries import cures, no_cure, trigger


@trigger("GB0263", enable_trace_contextlib=False)
def make_a_context(x):
    @contextlib.contextmanager
    def twice():
        yield x * 2

    with twice() as y:
        return y + 1


@cures(make_a_context, enable_trace_contextlib=True)
def make_a_traced_context(x):
    @contextlib.contextmanager
    def twice():
        yield x * 2

    with twice() as y:
        return y + 1


@trigger("GB0142", lambda: (torch.ones(3), threading.Lock()))
def under_a_lock(x, lock):
    with lock:
        return x + 1


no_cure(under_a_lock, "other threads see a lock while the step runs: take it outside")


@trigger("GB0370", capture_profiler_record_function=True)
def hand_out_a_record(x):
    record = torch.profiler.record_function("step")
    return x + 1, record


no_cure(hand_out_a_record, "a record is made by the program that opens it")


@trigger("GB0209")
def hand_out_a_version_guard(x):
    return x + 1, unsafe_preserve_version_counter(x)


no_cure(hand_out_a_version_guard, "the counter is kept while the context is open, and it must be opened outside")


@trigger("GB0212")
def hand_out_a_profiler(x):
    return x + 1, torch.profiler.profile()


no_cure(hand_out_a_profiler, "a profiler is made by the program that calls the graph")


@trigger("GB0234")
def pop_a_mode(x):
    pop_mode()
    return x + 1


no_cure(pop_a_mode, "eager refuses too: there is no mode to pop")


@trigger("GB0008")
def hand_out_hooks(x):
    return x + 1, torch.autograd.graph.saved_tensors_hooks(lambda y: y, lambda y: y)


no_cure(hand_out_hooks, "hooks on what is saved are set around the call, outside of the graph")
