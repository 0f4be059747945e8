"""A reader's own Triton kernels where no GPU is: Triton's interpreter runs them, on the CPU's tensors."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch


@contextlib.contextmanager
def kernels_interpreted() -> Iterator[None]:
    """In the block a launch of a Triton kernel is interpreted, and of an autotuned one the first configuration; Dynamo
    captures it, as it does where a GPU is.

    Of a machine with a GPU, and of a process that has no Triton, nothing is changed.
    """
    if "triton" not in sys.modules or torch.cuda.is_available():
        yield
        return
    from torch.utils import _triton as asked
    from triton.runtime import interpreter
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    def made(function: Any) -> Any:
        return interpreter.InterpretedFunction(function.fn)

    @torch.compiler.disable  # a graph that holds a kernel launches it from within compiled code
    def launch(self: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> None:
        made(self).run(*args, grid=grid, warmup=warmup, **kwargs)

    def called_in_a_kernel(self: Any, *args: Any, **kwargs: Any) -> Any:
        return made(self)(*args, **kwargs)

    def first(self: Any, *args: Any, **kwargs: Any) -> None:
        self.fn.run(*args, **{**self.configs[0].all_kwargs(), **kwargs})

    inside, has_triton = [True], asked.has_triton
    with contextlib.ExitStack() as entered:
        entered.enter_context(mock.patch.object(JITFunction, "run", launch))
        entered.enter_context(mock.patch.object(JITFunction, "__call__", called_in_a_kernel))
        entered.enter_context(mock.patch.object(Autotuner, "run", first))
        # A module that is imported in the block keeps this function for good.
        entered.enter_context(mock.patch.object(asked, "has_triton", lambda: bool(inside) or has_triton()))
        entered.callback(inside.clear)
        yield


def launch_nothing() -> None:
    """From here on a launch of a Triton kernel does nothing: its arguments are fake, and what it writes is unknown."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    def launch(self: Any, *args: Any, **kwargs: Any) -> None:
        for each in (*args, *kwargs.values()):
            if isinstance(each, torch._subclasses.FakeTensor):
                each.constant = None

    JITFunction.run = Autotuner.run = launch
