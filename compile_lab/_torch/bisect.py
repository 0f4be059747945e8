"""Private names of torch's own bisector of its compiler."""

import contextlib
import io
from collections.abc import Callable

import torch
import torch._functorch.config

from .inductor import inductor_config


def stock_bisection(is_right: Callable[[], bool]) -> tuple[str, str, int | None, str] | None:
    """What `torch._inductor.compiler_bisector` finds: backend, subsystem, which application of it, and what that was;
    None if no backend is wrong. ``is_right`` compiles with `torch.compile`, whose backend the bisector sets, and says
    whether the result is right; it is called a dozen times or more."""
    from torch._inductor.compiler_bisector import CompilerBisector

    caches = {"fx_graph_cache": False, "force_disable_caches": True}
    with (
        contextlib.redirect_stdout(io.StringIO()),
        inductor_config.patch(caches),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        found = CompilerBisector.do_bisect(is_right)
    if found is None:
        return None
    return found.backend, found.subsystem or "", found.bisect_number, (found.debug_info or "").strip()
