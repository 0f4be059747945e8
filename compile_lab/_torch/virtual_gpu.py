"""Private names of torch and Triton that the virtual GPU stands in for."""

import types
from collections.abc import Mapping
from typing import Any

import torch

from .inductor import inductor_lowering


def virtual_gpu_pieces() -> types.SimpleNamespace:
    """What a virtual GPU replaces or asks: fake tensors, Inductor's lowering and loader, Triton's driver; slow.

    ``modules_that_remember`` keep the answer of functions that ask whether there is a GPU.
    """
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor import compile_fx, output_code
    from torch._inductor import utils as inductor_utils
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.graph import GraphLowering
    from torch._inductor.runtime.hints import DeviceProperties
    from torch._logging import trace_structured
    from torch._ops import OpOverload
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
    from torch.utils import _triton as triton_utils
    from torch.utils._mode_utils import no_dispatch
    from torch.utils._pytree import tree_leaves, tree_map, tree_map_only
    from triton.backends.compiler import GPUTarget
    from triton.runtime.cache import triton_key
    from triton.runtime.driver import driver as triton_driver

    inductor_lowering(), triton_key()  # slow the first time (the key is a hash of all of Triton's files), kept after it
    modules_that_remember = (triton_utils, inductor_utils)
    return types.SimpleNamespace(**locals())


def symbolically(expression: Any, known: Mapping[Any, int | torch.SymInt]) -> int | torch.SymInt:
    """A size, computed with symbols that stand for values: what torch does with numbers, done with its SymInt."""
    from torch.utils._sympy.interp import sympy_interp
    from torch.utils._sympy.reference import PythonReferenceAnalysis

    return sympy_interp(PythonReferenceAnalysis, dict(known), expression)


def triton_helpers() -> types.ModuleType:
    """What every Triton kernel of Inductor's imports; it looks for a GPU's driver when the kernel is defined."""
    from torch._inductor.runtime import triton_helpers

    return triton_helpers


def interpreter_pieces() -> types.SimpleNamespace:
    """What running generated code on the CPU replaces or asks: the wrapper's allocator, the kernels' decorators."""
    from torch._guards import TracingContext, tracing
    from torch._inductor.runtime import triton_helpers, triton_heuristics
    from torch._inductor.runtime.hints import TRITON_MAX_BLOCK as max_block
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.utils._device import _device_constructors as device_constructors

    return types.SimpleNamespace(**locals(), guards=torch._C._dynamo.guards, torch_c=torch._C)


def parametrized_again(
    base: type[torch.nn.Module], state: dict[str, object], names: tuple[str, ...]
) -> torch.nn.Module:
    """A module with parametrizations, as torch makes it: of a class of its own, whose parametrized names compute.

    torch refuses to pickle one, for that class can be found nowhere; here it is made anew, under the same state.
    """
    from torch.nn.utils import parametrize

    module = base.__new__(base)
    module.__dict__.update(state)
    parametrize._inject_new_class(module)
    for name in names:
        parametrize._inject_property(module, name)
    return module
