"""What a process finds out about its CPU before it loads packages."""

from unittest import mock

import pytest
from torch._inductor import cpu_vec_isa
from torch._inductor.exc import InvalidCxxCompiler

from compile_lab._torch.packages import probe_cpu


@pytest.mark.parametrize("error", [InvalidCxxCompiler("g++"), PermissionError("the cache"), TimeoutError("its lock")])
def test_what_keeps_from_probing_is_left_for_the_loading_to_say(error):
    with mock.patch.object(cpu_vec_isa, "pick_vec_isa", side_effect=error) as asked:
        probe_cpu()
    assert asked.called


def test_a_mistake_is_not_hidden():
    with mock.patch.object(cpu_vec_isa, "pick_vec_isa", side_effect=TypeError), pytest.raises(TypeError):
        probe_cpu()
