"""Inside a child: what aten computes on the CPU for a generated wrapper lies in memory as a GPU's aten would lay it.

A wide convolution's result lies channel by channel there, and the code around it counts on that.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .._torch.virtual_gpu import virtual_gpu_pieces
from .fake_cuda import CUDA

CPU = torch.device("cpu")


def lay_out_as_the_chip() -> None:
    """Whatever Inductor's wrappers call, for the rest of this process."""
    graph = virtual_gpu_pieces().output_code.CompiledFxGraph
    run = graph.__call__

    def called(self: Any, inputs: Any) -> Any:
        with _AsTheChipLaysOut():
            return run(self, inputs)

    graph.__call__ = called


def twin(tensor: torch.Tensor) -> torch.Tensor:
    """A fake tensor on the GPU like this one."""
    made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=CUDA)
    return made.requires_grad_(tensor.requires_grad)


def on_cuda(value: Any) -> Any:
    """The GPU for the CPU; anything else as it is."""
    return CUDA if value == CPU else "cuda" if isinstance(value, str) and value == "cpu" else value


class _AsTheChipLaysOut(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = function(*args, **(kwargs or {}))
        if function.namespace != "aten" or any(each.alias_info for each in function._schema.returns):
            return results
        chips = self._on_the_chip(function, args, kwargs or {})
        if chips is None or isinstance(results, torch.Tensor):
            return _laid(results, chips)
        if isinstance(results, tuple | list):
            return type(results)(_laid(*pair) for pair in zip(results, chips, strict=True))
        return results

    def _on_the_chip(self, function: Any, args: Any, kwargs: Any) -> Any:
        """The results without values; what hangs on values lies as it comes."""
        pieces = virtual_gpu_pieces()

        def there(value: Any) -> Any:
            return twin(value) if isinstance(value, torch.Tensor) else on_cuda(value)

        with pieces.FakeTensorMode(allow_non_fake_inputs=True):
            args, kwargs = pieces.tree_map(there, (args, kwargs))
            try:
                return function(*args, **kwargs)
            except (pieces.DataDependentOutputException, pieces.DynamicOutputShapeException):
                return None


def _laid(result: Any, chips: Any) -> Any:
    if not isinstance(result, torch.Tensor) or chips is None or result.stride() == chips.stride():
        return result
    return torch.empty_strided(result.size(), chips.stride(), dtype=result.dtype).copy_(result)
