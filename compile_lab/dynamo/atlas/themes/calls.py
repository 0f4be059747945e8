"""Calls that Dynamo does not follow: C functions, functions that are marked, other compilers."""

import gc
import hashlib
import os
import pickle
import time
import zlib

import torch

from ...._torch.breaks import check, comptime, graph_break, nonstrict_trace, skip_frame, step_unsupported
from ..entries import cures, no_cure, trigger

MISSING: list[int]
HASH_LENGTH = len(hashlib.sha256(b"step").hexdigest())


@torch.compiler.disable
def left_out(x):
    """A function that somebody has kept out of graphs."""
    return x + 1


def taken_in(x):
    """The same, which may be traced."""
    return x + 1


@trigger("GB0025")
def asked_for_a_break(x):
    graph_break()
    return x + 1


@cures(asked_for_a_break)
def not_asked_for(x):
    return x + 1


@trigger("GB4297")
def asked_to_skip(x):
    skip_frame()
    return x + 1


@cures(asked_to_skip)
def not_skipped(x):
    return x + 1


@trigger("GB0284")
def asked_to_step(x):
    step_unsupported()
    return x + 1


@cures(asked_to_step)
def not_stepped(x):
    return x + 1


@trigger("GB0030")
def break_at_compile_time(x):
    comptime.graph_break()
    return x + 1


@cures(break_at_compile_time)
def without_compile_time(x):
    return x + 1


@trigger("GB0098", needs=(left_out,))
def call_a_disabled_function(x):
    return left_out(x) * 2


@cures(call_a_disabled_function)
def call_the_function_below(x):
    return taken_in(x) * 2


@trigger("GB0007")
def sleep_inside(x):
    return x + 1, time.sleep(0)


no_cure(sleep_inside, "a graph does not wait: do it outside")


@trigger("GB0007")
def collect_garbage(x):
    gc.collect()
    return x + 1


no_cure(collect_garbage, "what happens to memory is no operation of a graph: do it outside")


@trigger("GB0007")
def hash_bytes(x):
    return x + len(hashlib.sha256(b"step").hexdigest())


@cures(hash_bytes)
def hash_once(x):
    return x + HASH_LENGTH


@torch.library.custom_op("atlas::checksum", mutates_args=())
def checksum(x: torch.Tensor) -> torch.Tensor:
    """A function written in C, as an operator."""
    return torch.tensor(zlib.crc32(x.numpy()))


@checksum.register_fake
def _checksum(x):
    return x.new_empty((), dtype=torch.int64)


@trigger("GB0007")
def checksum_in_c(x):
    return x + zlib.crc32(x.numpy())


@cures(checksum_in_c)
def checksum_by_an_operator(x):
    return x + checksum(x)


@trigger("GB0007")
def list_a_folder(x):
    return x + (1 if os.listdir("/") else 0)


no_cure(list_a_folder, "what lies in a folder may change between calls: read it outside")


@trigger("GB0007")
def pickle_a_list(x):
    return x + 1, pickle.dumps([1, 2])


no_cure(pickle_a_list, "the pickler is written in C: pickle outside")


@trigger("GB0223")
def compile_with_options(x):
    return torch.compile(taken_in, None)(x)


no_cure(compile_with_options, "eager refuses too: options go by name")


@trigger("GB0248")
def device_module_twice(x):
    return torch.get_device_module("cpu", "cpu")


no_cure(device_module_twice, "eager refuses too: it takes one device")


@trigger("GB0286")
def module_of_no_device(x):
    return torch.get_device_module("toaster")


no_cure(module_of_no_device, "eager refuses too: there is no such device")


@trigger("GB0285")
def stream_of_two_devices(x):
    return torch.accelerator.current_stream("cpu", "cpu")


no_cure(stream_of_two_devices, "eager refuses too: it takes one device")


@trigger("GB0249")
def stream_of_no_device(x):
    return torch.accelerator.current_stream("toaster")


no_cure(stream_of_no_device, "eager refuses too: there is no such device")


@trigger("GB0243")
def pair_of_tensors(x):
    return torch.nn.modules.utils._pair(x.sum)[0]()


@cures(pair_of_tensors)
def pair_written_out(x):
    return (x.sum, x.sum)[0]()


@trigger("GB7650", lambda: (torch.ones(3), torch.Generator()))
def seed_a_generator(x, generator):
    generator.manual_seed(3)
    return x + torch.rand(3, generator=generator)


no_cure(seed_a_generator, "a generator's state is outside the graph: seed it before the call")


@trigger("GB7312")
def call_with_too_many(x):
    return taken_in(x, x)


no_cure(call_with_too_many, "eager raises TypeError too")


@trigger("GB9840")
def check_with_a_ready_message(x):
    check(x.shape[0] == 3, str)
    return x + 1


@cures(check_with_a_ready_message, "with a message of its own")
def check_with_a_message(x):
    check(x.shape[0] == 3, lambda: "three numbers")
    return x + 1


@trigger("GB9158")
def check_with_a_value_in_its_message(x):
    y = x + 1
    check(x.shape[0] == 3, lambda: f"three numbers, not {y}")
    return y


@cures(check_with_a_value_in_its_message, "the message no longer shows the value")
def check_with_a_plain_message(x):
    y = x + 1
    check(x.shape[0] == 3, lambda: "three numbers")
    return y


@trigger("GB0078")
def not_strict_inside(x):
    return nonstrict_trace(lambda y: y + 1)(x)


@cures(not_strict_inside)
def strict_inside(x):
    return (lambda y: y + 1)(x)


@trigger("GB0354")
def an_unknown_name(x):
    return x + MISSING[0]


no_cure(an_unknown_name, "eager raises NameError too")
