"""What Inductor's wrapper takes over: read from a wrapper by hand. Chapter 9 counts it in two that Inductor writes."""

from dataclasses import fields

from compile_lab.inductor.generated import GeneratedCode
from compile_lab.inductor.records import InductorGraph
from compile_lab.inductor.reuse import Reuse, buffer_reuse
from compile_lab.recordings import here

WRAPPER = """
twice = async_compile.triton('twice', 'def twice(in_out_ptr0, in_ptr0, xnumel):')
once = async_compile.triton('once', 'def once(in_out_ptr0, in_ptr0, xnumel):')
def call(self, args):
    primals_1, saved_1 = args
    args.clear()
    buf0 = empty_strided_cuda((8, ), (1, ), torch.float32)
    buf1 = buf0; del buf0  # reuse
    twice.run(buf1, primals_1, 8, stream=stream0)
    del primals_1
    buf2 = saved_1; del saved_1  # reuse
    once.run(buf2, buf1, 8, stream=stream0)
    buf3 = reinterpret_tensor(buf1, (4, 2), (2, 1), 0); del buf1  # reuse
    extern_kernels.mm(buf2, buf2, out=buf3)
    del buf2
    return (buf3, )
"""


def code_of(wrapper):
    nothing = dict.fromkeys((field.name for field in fields(InductorGraph)), ())
    graph = InductorGraph(**{**nothing, "direction": "backward", "wrapper": wrapper})
    return GeneratedCode((graph,), None, here("test", device="cpu"))


def test_allocated_freed_and_taken_over_are_told_apart_and_what_was_not_yet_written_is_not_reused():
    (found,) = buffer_reuse(code_of(WRAPPER))
    assert (found.allocated, found.freed, found.reused, found.donated) == (1, 1, 1, 1)
    assert [(each.in_place, each.donated) for each in found.taken] == [(True, True), (False, False)]
    (found,) = buffer_reuse(code_of(WRAPPER.partition("    del primals_1")[0]))
    assert found == Reuse("backward", allocated=1, freed=0, taken=())
