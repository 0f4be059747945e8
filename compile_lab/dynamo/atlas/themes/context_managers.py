"""Context managers: those that Dynamo does not enter, and those that leave half-open."""

import contextlib
import decimal
import io
import tempfile
import threading
import warnings

import torch

from ...._torch.breaks import pop_mode, unsafe_preserve_version_counter
from ..entries import cures, no_cure, trigger


@trigger("GB0262")
def close_several(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        return x + 1


@cures(close_several)
def close_one(x):
    with torch.no_grad():
        return x + 1


@trigger("GB0262")
def catch_output(x):
    with contextlib.redirect_stdout(io.StringIO()):
        return x + 1


no_cure(catch_output, "where output goes is the program's affair: redirect outside")


@trigger("GB0263", enable_trace_contextlib=False)
def make_a_context(x):
    @contextlib.contextmanager
    def twice():
        yield x * 2

    with twice() as y:
        return y + 1


@cures(make_a_context)
def without_a_context(x):
    y = x * 2
    return y + 1


@trigger("GB0142", lambda: (torch.ones(3), threading.Lock()))
def under_a_lock(x, lock):
    with lock:
        return x + 1


no_cure(under_a_lock, "other threads see a lock while the step runs: take it outside")


@trigger("GB0142")
def in_a_temporary_folder(x):
    with tempfile.TemporaryDirectory():
        return x + 1


no_cure(in_a_temporary_folder, "a folder is made by the program that calls the graph")


@trigger("GB0142")
def with_other_digits(x):
    with decimal.localcontext():
        return x + 1


no_cure(with_other_digits, "")


@trigger("GB0142")
def without_warnings(x):
    with warnings.catch_warnings(record=True) as found:
        return x + 1, found


no_cure(without_warnings, "")


@trigger("GB0274")
def hand_out_an_entrance(x):
    return x + 1, torch.no_grad().__enter__


no_cure(hand_out_an_entrance, "a context's entrance belongs to the one who enters: hand out the context")


@trigger("GB0370", capture_profiler_record_function=True)
def hand_out_a_record(x):
    record = torch.profiler.record_function("step")
    return x + 1, record


no_cure(hand_out_a_record, "a record is made by the program that opens it")


@trigger("GB0279")
def hand_out_an_annotation(x):
    return x + 1, torch.fx.traceback.annotate({"step": 1})


no_cure(hand_out_an_annotation, "an annotation belongs to the graph's nodes, and not to its results")


@trigger("GB0209")
def hand_out_a_version_guard(x):
    return x + 1, unsafe_preserve_version_counter(x)


no_cure(hand_out_a_version_guard, "the counter is kept while the context is open, and it must be opened outside")


@trigger("GB0212")
def hand_out_a_profiler(x):
    return x + 1, torch.profiler.profile()


no_cure(hand_out_a_profiler, "a profiler is made by the program that calls the graph")


@trigger("GB0066", needs=())
def break_inside_a_context(x):
    with contextlib.suppress(ValueError):
        return x + 1


no_cure(break_inside_a_context, "")


@trigger("GB0234")
def pop_a_mode(x):
    pop_mode()
    return x + 1


no_cure(pop_a_mode, "eager refuses too: there is no mode to pop")


@trigger("GB0149")
def hand_out_deterministic(x):
    return x + 1, torch.autograd.graph.saved_tensors_hooks(lambda y: y, lambda y: y)


no_cure(hand_out_deterministic, "")


@trigger("GB0149")
def count_flops(x):
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as mode:
        y = x @ x
    return y, mode.get_total_flops()


no_cure(count_flops, "")
