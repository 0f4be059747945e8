"""Which launches does a kernel that reduces both ways need? Inductor's "mix order reduction", as its wrapper writes it.

A layer norm's backward sums along the rows (for the input's gradient) and along the columns (for the weight's and the
bias's). For a tall matrix Inductor computes both in one pass: a kernel walks some rows at a time, and writes a partial
column sum for each group of rows into a workspace. Calls of torch's own `sum` then add the partial sums. Neither the
kernel nor those calls are announced as other launches are: the kernel is watched here while it is written, and the
calls are read off the wrapper (``wrapper.Summed``).
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from .._torch.inductor import inductor_lowering


@contextlib.contextmanager
def announced(launch: Callable[[list[Any], str], None]) -> Iterator[None]:
    """While the block runs, ``launch(nodes, name)`` is called for each such kernel, when it has been written."""
    scheduling = inductor_lowering().TritonScheduling
    codegen = scheduling.codegen_mix_order_reduction

    def mixed(self: Any, node: Any) -> None:
        define = self.define_kernel
        names: list[str] = []

        def defined(*args: Any, **kwargs: Any) -> str:
            name = define(*args, **kwargs)
            if not names:  # what follows are kernels of what depends on it, which torch announces itself
                names.append(name)
                columns = [part for part in node.node2.get_nodes() if part.is_reduction()]
                launch([*node.node1.get_nodes(), *columns], name)
            return name

        with mock.patch.object(self, "define_kernel", defined):
            codegen(self, node)

    with mock.patch.object(scheduling, "codegen_mix_order_reduction", mixed):
        yield
