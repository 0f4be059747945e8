"""A Triton kernel as text that can travel to another process, and be a function there.

A ``@triton.jit`` function needs its source, which for one of a notebook's cells is in no file, and cannot be pickled.
"""

import ast
import inspect
import linecache
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .line_maps import SOURCE

KERNELS = ("JITFunction", "InterpretedFunction")
"""What ``@triton.jit`` makes, with a compiler and with the interpreter."""
TUNED = ("Autotuner", "Heuristics")
"""What chooses among several of them."""


@dataclass(frozen=True)
class HandWritten:
    """A kernel's own source, and what it names: modules, constants, and other kernels (``HandWritten`` in turn)."""

    name: str
    source: str
    names: Mapping[str, Any]

    def made(self, file: str = SOURCE) -> Any:
        """The function, whose first line is line 1 of `file`, as ``@triton.jit`` makes it in this process."""
        import triton
        import triton.language as tl

        # The interpreter looks for Triton's language among a kernel's globals, used or not.
        scope: dict[str, Any] = {"__name__": "kernel", "triton": triton, "tl": tl}
        for name, value in self.names.items():
            scope[name] = value.made(f"{name}.py") if isinstance(value, HandWritten) else value
        return defined(self.source, file, scope)[self.name]


def hand_written(kernel: Any) -> HandWritten:
    """A ``@triton.jit`` function, made ready to travel.

    Raises TypeError for anything else, and for a kernel under ``@triton.autotune`` or ``@triton.heuristics``.
    """
    function = getattr(kernel, "fn", None)
    if not inspect.isfunction(function):
        kind = type(kernel).__name__
        if function is not None:
            raise TypeError(f"{kind} wraps a kernel and chooses its blocks: give the @triton.jit function itself")
        raise TypeError(f"this asks for a kernel, an inductor.Kernel or a @triton.jit function, not {kind}")
    source = _under_the_innermost_decorator(textwrap.dedent(inspect.getsource(function)))
    scope = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    names = {
        name: _named(scope[name])
        for name in function.__code__.co_names + function.__code__.co_freevars
        if name in scope and name != function.__name__  # an attribute may be called like the kernel, as in tl.dot
    }
    return HandWritten(function.__name__, source, names)


def _under_the_innermost_decorator(source: str) -> str:
    """From ``@triton.jit`` on: what stands above it chooses blocks, and is told apart."""
    [function] = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    return "".join(source.splitlines(keepends=True)[function.decorator_list[-1].lineno - 1 :])


def tuned_parts(chooser: Any) -> tuple[Any, ...]:
    """What chooses a kernel's blocks, as its parts, of which `tuned_again` makes it once more: what Inductor knows of.

    Raises TypeError, as Dynamo does in its way, for one with a function of its own that prunes or is called around it.
    """
    if type(chooser).__name__ == "Heuristics":
        return chooser.fn, None, chooser.values
    if getattr(chooser, "early_config_prune", None) or getattr(chooser, "perf_model", None):
        raise TypeError(f"{chooser.base_fn.__name__} prunes its configurations by a function: torch.compile takes none")
    return chooser.fn, chooser.configs, chooser.keys


def tuned_again(kernel: Any, configs: list[Any] | None, chosen_by: Any) -> Any:
    """``@triton.heuristics``, if there are no configurations, or ``@triton.autotune``."""
    import triton

    return triton.autotune(configs, key=chosen_by)(kernel) if configs else triton.heuristics(chosen_by)(kernel)


def _named(value: Any) -> Any:
    return hand_written(value) if type(value).__name__ in KERNELS else value


def defined(source: str, file: str, scope: dict[str, Any]) -> dict[str, Any]:
    """Run `source` as if it stood in `file`, where Triton will look for it; returns the scope."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope["__file__"] = file
    exec(compile(source, file, "exec"), scope)
    return scope
