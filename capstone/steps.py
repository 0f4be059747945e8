"""Training steps of one GPT behind one call, from the one that is written first to the one that a CUDA graph holds.

Every step has ``step(tokens, targets) -> loss`` (int64 [batch, length] each; the mean loss in nats, 0-d, on the
device), ``set_lr(value)``, ``gradients(tokens, targets) -> (loss, {MiniGPT's name: gradient})``, which changes no
weight, ``weights()``, {MiniGPT's name: a float32 copy}, and ``restart(weights)``, as if none had been taken.
`capstone.hand.step.HandStep` is another one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from mini_model.inputs import positive
from mini_model.model import MiniGPT

from .gpt import PRODUCTS, training_loss
from .hand import reference
from .hand.flat import FlatParameters
from .hand.graph import GraphMemory, captured

LR, BETAS, EPS, DECAY = 6e-4, (0.9, 0.95), 1e-8, 0.1
"""Those of GPT-2's size in Brown et al. 2020, and of nanoGPT. Matrices and embeddings decay, vectors do not."""

Gradients = tuple[Tensor, dict[str, Tensor]]


class TrainingStep(Protocol):
    """What every rung of the ladder is."""

    def step(self, tokens: Tensor, targets: Tensor) -> Tensor: ...

    def set_lr(self, value: float) -> None: ...

    def gradients(self, tokens: Tensor, targets: Tensor) -> Gradients: ...

    def weights(self) -> dict[str, Tensor]: ...

    def restart(self, weights: Mapping[str, Tensor]) -> None: ...


class _OptimizedStep:
    """A step whose weights and moments are its optimizer's."""

    optimizer: FusedAdamW | FlatAdamW

    def weights(self) -> dict[str, Tensor]:
        return self.optimizer.masters()

    def restart(self, weights: Mapping[str, Tensor]) -> None:
        self.optimizer.restart(weights)

    def set_lr(self, value: float) -> None:
        self.optimizer.set_lr(value)


class ModuleStep(_OptimizedStep):
    """MiniGPT as a module, torch's AdamW, and what torch's own switches do.

    tensor_cores: float32 matmuls may round their inputs to TF32. autocast: matmuls, attention in bf16. fused: one
    kernel updates many parameters; otherwise each has its own. waits: the loss is read at every step. compiled: the
    model and its loss as one graph.
    """

    def __init__(
        self,
        model: MiniGPT,
        *,
        tensor_cores: bool = True,
        autocast: bool = True,
        fused: bool = True,
        waits: bool = False,
        compiled: bool = False,
    ) -> None:
        self.model, self.autocast, self.waits = model, autocast, waits
        self.precision = "high" if tensor_cores else "highest"
        self.run = torch.compile(model, fullgraph=True, dynamic=False) if compiled else model
        self.optimizer = FusedAdamW(dict(model.named_parameters()), fused)

    def step(self, tokens: Tensor, targets: Tensor) -> Tensor:
        loss = self._backward(self.run, tokens, targets)
        self.optimizer.update()
        if self.waits:
            loss.item()
        return loss

    def gradients(self, tokens: Tensor, targets: Tensor) -> Gradients:
        return _taken(self._backward(self.model, tokens, targets), self.optimizer.weights)

    def _backward(self, run: Callable[..., Tensor], tokens: Tensor, targets: Tensor) -> Tensor:
        torch.set_float32_matmul_precision(self.precision)
        with torch.autocast(tokens.device.type, PRODUCTS, enabled=self.autocast):
            loss = run(tokens, targets)
        loss.backward()
        return loss.detach()


class FunctionStep(_OptimizedStep):
    """`training_loss` compiled, and its parameters as they are or flat.

    chunks: of the head, see `TiedHead`. flat: masters in two buffers, which one compiled kernel each updates, and for
    the matmuls a copy in bf16. stream: the residual stream's dtype. graph: the whole step as one CUDA graph, captured
    at the first call; needs flat. compiled=False runs the same operations eagerly. options: Inductor's, for the loss.
    forms: what else `training_loss` is given.
    """

    def __init__(
        self,
        model: MiniGPT,
        *,
        chunks: int = 0,
        flat: bool = False,
        stream: torch.dtype = torch.float32,
        graph: bool = False,
        compiled: bool = True,
        memory: GraphMemory | None = None,
        options: Mapping[str, Any] | None = None,
        **forms: Any,
    ) -> None:
        if not model.config.tied_head:
            raise ValueError("the model's head has its own matrix; this step is for GPTConfig(tied_head=True)")
        if graph and not flat:
            raise ValueError("graph=True needs flat=True: torch's own AdamW counts its steps outside of the graph")
        parameters = {name: each.detach().clone() for name, each in model.named_parameters()}
        self.optimizer = FlatAdamW(parameters, compiled) if flat else FusedAdamW(parameters)
        self.loss_of = functools.partial(training_loss, config=model.config, stream=stream, chunks=chunks, **forms)
        chosen = dict(options) if options else None
        compiled_loss = torch.compile(self.loss_of, fullgraph=True, dynamic=False, options=chosen)
        self.run = compiled_loss if compiled else self.loss_of
        self.wants_graph, self.memory = graph, memory
        self.graph: torch.cuda.CUDAGraph | None = None

    def step(self, tokens: Tensor, targets: Tensor) -> Tensor:
        if not self.wants_graph:
            return self._whole(tokens, targets)
        if self.graph is None:
            self.graph = self._capture(tokens, targets)
        self.tokens.copy_(tokens)
        self.targets.copy_(targets)
        self.graph.replay()
        return self.loss.clone()

    def gradients(self, tokens: Tensor, targets: Tensor, compiled: bool = False) -> Gradients:
        """Of the operations as they are written, or as the step runs them."""
        run = self.run if compiled else self.loss_of
        return _taken(self._backward(run, tokens, targets), self.optimizer.weights)

    def _backward(self, run: Callable[..., Tensor], tokens: Tensor, targets: Tensor) -> Tensor:
        torch.set_float32_matmul_precision("high")
        loss = run(self.optimizer.weights, tokens, targets)
        loss.backward()
        return loss.detach()

    def _whole(self, tokens: Tensor, targets: Tensor) -> Tensor:
        loss = self._backward(self.run, tokens, targets)
        self.optimizer.update()
        return loss

    def _capture(self, tokens: Tensor, targets: Tensor) -> torch.cuda.CUDAGraph:
        assert isinstance(self.optimizer, FlatAdamW)  # as a graph needs
        self.tokens, self.targets = tokens.clone(), targets.clone()
        self.loss = torch.zeros((), device=tokens.device)

        def whole() -> None:
            self.loss.copy_(self._whole(self.tokens, self.targets))

        return captured(whole, self.optimizer.state, self.memory or GraphMemory())


class FusedAdamW:
    """torch's own: parameters in float32; fused, a few launches for all of them."""

    def __init__(self, parameters: Mapping[str, Tensor], fused: bool = True) -> None:
        self.weights = {name: each.requires_grad_() for name, each in parameters.items()}
        self.optimizer = adamw(self.weights, fused)

    def update(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def masters(self) -> dict[str, Tensor]:
        return {name: each.detach().clone() for name, each in self.weights.items()}

    @torch.no_grad()
    def restart(self, weights: Mapping[str, Tensor]) -> None:
        for name, each in self.weights.items():
            each.copy_(weights[name])
        self.optimizer.state.clear()

    def set_lr(self, value: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = value


class FlatAdamW:
    """Parameters end to end: of matrices a float32 master and the bf16 copy that matmuls read, of vectors float32.

    The update is plain torch, compiled to one kernel a buffer. What is counted lies on the device, so that a CUDA graph
    sees it change.
    """

    def __init__(self, parameters: Mapping[str, Tensor], compiled: bool = True) -> None:
        matrices = {name: each for name, each in parameters.items() if each.dim() > 1}
        vectors = {name: each for name, each in parameters.items() if each.dim() == 1}
        self.regions = (
            FlatParameters.of(matrices, torch.float32, PRODUCTS, PRODUCTS, DECAY),
            FlatParameters.of(vectors, torch.float32, torch.float32, torch.float32, 0.0),
        )
        lows = [(name, low) for region in self.regions for name, low in region.views(region.low).items()]
        self.weights = {name: low.detach().requires_grad_() for name, low in lows}
        device = self.regions[0].master.device
        self.count, self.rate = torch.zeros((), device=device), torch.tensor(LR, device=device)
        self.adamw = torch.compile(reference.adamw_, fullgraph=True, dynamic=False) if compiled else reference.adamw_

    @property
    def state(self) -> list[Tensor]:
        """What an update changes."""
        return [self.count, *(each for region in self.regions for each in region.state.values())]

    @torch.no_grad()
    def update(self) -> None:
        self.count += 1
        for region in self.regions:
            parts = [_gradient(self.weights[name]).flatten() for name in region.shapes]
            torch.cat(parts, out=region.gradient)
            low = None if region.low is region.master else region.low
            moments = region.gradient, region.first, region.second
            self.adamw(region.master, low, *moments, self.count, self.rate, BETAS, EPS, region.decay)
        for weight in self.weights.values():
            weight.grad = None

    def masters(self) -> dict[str, Tensor]:
        return {name: each.clone() for region in self.regions for name, each in region.views(region.master).items()}

    def restart(self, weights: Mapping[str, Tensor]) -> None:
        for region in self.regions:
            region.restart(weights)
        self.count.zero_()

    def set_lr(self, value: float) -> None:
        self.rate.fill_(positive("lr", value) if value else 0.0)


def adamw(parameters: Mapping[str, Tensor], fused: bool = True, decay: float = DECAY) -> torch.optim.Optimizer:
    """torch's AdamW as GPT-2's size was trained, matrices and embeddings apart from vectors, which do not decay."""
    groups = [
        {"params": [each for each in parameters.values() if each.dim() > 1], "weight_decay": decay},
        {"params": [each for each in parameters.values() if each.dim() == 1], "weight_decay": 0.0},
    ]
    how = {"fused": True} if fused else {"foreach": False}
    return torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS, **how)


def _gradient(weight: Tensor) -> Tensor:
    assert weight.grad is not None  # every weight takes part in the loss
    return weight.grad


def _taken(loss: Tensor, parameters: Mapping[str, Tensor]) -> Gradients:
    """The gradients, taken away from the parameters."""
    found = {name: _gradient(each).float() for name, each in parameters.items()}
    for each in parameters.values():
        each.grad = None
    return loss, found
