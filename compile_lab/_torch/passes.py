"""Private names behind a pass of the reader's own, and behind handing Inductor a graph that Dynamo never saw."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch._inductor.custom_graph_pass import CustomGraphPass


class KeyedPass(CustomGraphPass):
    """What Inductor's options for passes take: it is called with each graph, and ``uuid`` is its part of the key under
    which Inductor keeps what it compiled. A pass without one turns that cache off.
    """

    def __init__(self, run: Callable[[torch.fx.Graph], None], key: str) -> None:
        self.run, self.key = run, key

    def __call__(self, graph: torch.fx.Graph) -> None:
        self.run(graph)

    def uuid(self) -> str:
        return self.key


def compiled_graph(module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """Inductor's code for a graph of aten operations that may write into its inputs; takes them one by one.

    No gradient is traced: call it, and what it returns, under ``torch.no_grad()``. Inductor's cache takes only what has
    a shape environment, as a graph of Dynamo's has; here no size is a symbol. Imported on first use.
    """
    from torch._inductor.compile_fx import compile_fx
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    fakes = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    described = [fakes.from_tensor(each, static_shapes=True) for each in inputs]
    with tracing(TracingContext(fakes)):
        return compile_fx(module, described)  # type: ignore[return-value]  # text and files only if asked for
