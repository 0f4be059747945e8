"""A backend that counts: which graphs torch.compile made of a step, how large they are, and how often they run."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from compile_lab._torch.aot import aot_pieces


@dataclass
class Counting:
    """A backend for torch.compile that runs AOTAutograd's graphs as they are, cut as Inductor cuts them, and counts.

    ``graphs`` counts what Dynamo handed over. Since `begin`, ``forward_runs`` and ``backward_runs`` count the graphs
    that ran, ``forward_calls`` and ``backward_calls`` the calls in them, by operator ("aten.mm.default"). ``loss``: the
    loss is in one of the graphs.

    A TorchDispatchMode could count calls, too, but while one is active Dynamo compiles nothing.
    """

    graphs: int = 0
    forward_runs: int = 0
    backward_runs: int = 0
    forward_calls: Counter[str] = field(default_factory=Counter)
    backward_calls: Counter[str] = field(default_factory=Counter)
    loss: bool = False

    @property
    def nodes_run(self) -> int:
        """Calls in the forward graphs that ran."""
        return self.forward_calls.total()

    def begin(self) -> None:
        """Count runs from here on."""
        self.forward_runs = self.backward_runs = 0
        self.forward_calls.clear()
        self.backward_calls.clear()

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        pieces = aot_pieces()
        ways = {f"{side}_compiler": partial(self._counted, side == "fw") for side in ("fw", "bw")}
        return pieces.aot_autograd(**ways, partition_fn=pieces.min_cut_partition)(module, inputs)

    def _counted(self, forward: bool, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        run = aot_pieces().boxed_nop(graph, inputs)
        targets = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
        self.loss |= any("nll_loss" in target for target in targets)

        def counted(arguments: list[Any]) -> Any:
            self.forward_runs += forward
            self.backward_runs += not forward
            (self.forward_calls if forward else self.backward_calls).update(targets)
            return run(arguments)

        counted._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd hands over a list that it lets go of
        return counted
