"""Which launches does a kernel that reduces both ways need? Inductor's "mix order reduction", as its wrapper writes it.

A layer norm's backward sums along the rows (for the input's gradient) and along the columns (for the weight's and the
bias's). For a tall matrix Inductor computes both in one pass: a kernel walks some rows at a time, and writes a partial
column sum for each group of rows into a workspace. Calls of torch's own `sum` then add the partial sums. Neither the
kernel nor those calls are announced as other launches are, so they are read off here.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from compile_lab._torch import inductor_lowering

_SUM = re.compile(r"^(\w+) = workspace_\d+\[.*\]\.view\((\d+), (\d+)\)\.(\w+)\(dim=0\)(.*)$")


@dataclass(frozen=True)
class PartialSums:
    """The call that adds the partial results of one column reduction: ``op`` of ``nbytes`` in the workspace.

    ``buffer`` is what it makes, of ``out_nbytes``; ``cast`` says that a second call converts it.
    """

    buffer: str
    op: str
    nbytes: int
    out_nbytes: int
    cast: bool
    line: str


def partial_sums(wrapper: str, call: str) -> tuple[PartialSums, ...]:
    """The calls that follow the launch ``call`` in a wrapper and finish its column reductions."""
    found = []
    lines = iter(line.strip() for line in wrapper.splitlines())
    for line in lines:
        if line == call:
            break
    for line in lines:
        if not (match := _SUM.match(line)):
            break
        buffer, rows, columns, op, rest = match.groups()
        size = torch.float32.itemsize  # of the workspace, whatever the reduced dtype
        found.append(
            PartialSums(buffer, op, int(rows) * int(columns) * size, int(columns) * size, ".to(" in rest, line)
        )
    return tuple(found)


def launch_line(wrapper: str, kernel: str) -> str:
    """The line of a wrapper that launches a kernel which is launched once; empty if there is none."""
    found = re.search(rf"^ *({re.escape(kernel)}\.run\(.*\))$", wrapper, re.MULTILINE)
    return found[1] if found else ""


@contextlib.contextmanager
def announced(launch: Callable[[list[Any], str], None]) -> Iterator[None]:
    """While the block runs, ``launch(nodes, name)`` is called for each such kernel, when it has been written."""
    scheduling = inductor_lowering().TritonScheduling
    codegen = scheduling.codegen_mix_order_reduction

    def mixed(self: Any, node: Any) -> None:
        define, told = self.define_kernel, []

        def defined(*args: Any, **kwargs: Any) -> str:
            name = define(*args, **kwargs)
            if not told:  # what follows are kernels of what depends on it, which torch announces itself
                told.append(name)
                columns = [part for part in node.node2.get_nodes() if part.is_reduction()]
                launch([*node.node1.get_nodes(), *columns], name)
            return name

        with mock.patch.object(self, "define_kernel", defined):
            codegen(self, node)

    with mock.patch.object(scheduling, "codegen_mix_order_reduction", mixed):
        yield
