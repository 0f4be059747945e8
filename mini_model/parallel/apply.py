"""MiniGPT on many devices: one short function for each pattern, and one training step for all of them.

Each function takes the unchanged model and a torch DeviceMesh, whose axes are named "replicate", "shard", "tp", "pp",
"cp" and "ep". Every rank begins with the same weights: the same seed, or the same checkpoint.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import get_schedule_class
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

from ..inputs import instance, one_of, whole
from ..model import GPTConfig, MiniGPT
from .parts import ContextAttention, ExchangedMixture, HeadwiseAttention, Stage, by_kind, places
from .patterns import (
    DATA_AXES,
    PATTERNS,
    SCHEDULES,
    SLICED_AXES,
    check,
    check_batch,
    check_length,
    mesh_sizes,
    pattern_of,
    schedule_of,
)

# Of torch 2.13, about the last stage's logits: nobody changes them in place.
warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")

__all__ = [
    "PATTERNS",
    "SCHEDULES",
    "Parallel",
    "context_parallel",
    "ddp",
    "expert_parallel",
    "fsdp",
    "make_mesh",
    "mesh_sizes",
    "parallelize",
    "pipeline",
    "stages",
    "tensor_parallel",
]


# ---- one function a pattern
def ddp(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Every rank holds the whole model; gradients are averaged in buckets while the backward still runs."""
    return nn.parallel.DistributedDataParallel(model, device_mesh=mesh)


def fsdp(model: nn.Module, mesh: DeviceMesh, dtype: torch.dtype | None = None) -> nn.Module:
    """Every rank holds a slice of each parameter; a block's are gathered when it runs, and its gradients scattered.

    A mesh of two axes (replicate, shard) slices along the second and holds copies along the first: HSDP.
    dtype: that of gathered parameters, and so of their traffic; gradients are reduced in float32. Parameters that are
    slices already, such as experts, stay as they are.
    """
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32) if dtype else MixedPrecisionPolicy()
    apart = {each for part in model.modules() if isinstance(part, ExchangedMixture) for each in (part.up, part.down)}
    for part in (*_blocks(model), model):
        fully_shard(part, mesh=mesh, mp_policy=policy, ignored_params=apart or None)
    return model


def context_parallel(model: MiniGPT, mesh: DeviceMesh) -> MiniGPT:
    """Every rank computes some positions of each sequence, and gathers the keys and values of all.

    The model is to be given the tokens at `parts.places`, and the mean of the ranks' losses is that of the sequence.
    """
    attentions = [ContextAttention(block.attention, mesh, model.config.context) for block in _blocks(model)]
    for block, attention in zip(_blocks(model), attentions, strict=True):
        block.attention = attention

    def at_places(module: nn.Module, args: tuple[Tensor]) -> Tensor:
        (positions,) = args
        for attention in attentions:
            attention.at(len(positions))
        return places(len(positions) * mesh.size(), mesh.size())[mesh.get_local_rank()].to(positions.device)

    model.position_embedding.register_forward_pre_hook(at_places)
    return model


def expert_parallel(model: MiniGPT, mesh: DeviceMesh) -> MiniGPT:
    """Every rank holds some of the experts of each block, and computes all rows that chose them."""
    for block in _blocks(model):
        block.mlp = ExchangedMixture(block.mlp, mesh)
    return model


def tensor_parallel(
    model: nn.Module, mesh: DeviceMesh, sequence: bool = False, gathered_logits: bool = True
) -> nn.Module:
    """Every rank computes some heads, some of the MLP's width and some of the vocabulary.

    sequence: what lies between the matmuls (norms, residual stream) holds a slice of the positions, so that
    an all-gather before and a reduce-scatter after each pair of matmuls take the place of one all-reduce.
    gathered_logits: without, the logits are a DTensor sliced by the vocabulary; torch's `loss_parallel` computes the
    loss of that, and both forward and backward run inside of it.
    Shoeybi et al. 2019, and Korthikanti et al. 2022 for the sequence.
    """
    for block in _blocks(model):
        block.attention = HeadwiseAttention(block.attention)
        parallelize_module(block, mesh, _block_plan(sequence))
    ends: dict[str, Any] = {name: getattr(model, name) for name in ("head", "token_embedding") if hasattr(model, name)}
    tied = len(ends) == 2 and ends["head"].weight is ends["token_embedding"].weight
    plan = {name: style for name, style in _ends_plan(sequence, gathered_logits).items() if hasattr(model, name)}
    if plan:
        parallelize_module(model, mesh, plan)
    if tied:  # both are sliced by rows of the vocabulary, and each got slices of its own
        ends["head"].weight = ends["token_embedding"].weight
    return model


def _block_plan(sequence: bool) -> dict[str, ParallelStyle]:
    products = {"attention.qkv": ColwiseParallel(), "mlp.up": ColwiseParallel()}
    if not sequence:
        return products | {"attention.out": RowwiseParallel(), "mlp.down": RowwiseParallel()}
    gathered = partial(PrepareModuleInput, input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    return products | {
        "norm1": SequenceParallel(),
        "attention": gathered(),
        "attention.out": RowwiseParallel(output_layouts=Shard(1)),
        "norm2": SequenceParallel(),
        "mlp": gathered(),
        "mlp.down": RowwiseParallel(output_layouts=Shard(1)),
    }


def _ends_plan(sequence: bool, gathered_logits: bool) -> dict[str, ParallelStyle]:
    output = Replicate() if gathered_logits else Shard(-1)
    head = partial(ColwiseParallel, output_layouts=output, use_local_output=gathered_logits)
    if not sequence:
        return {"token_embedding": RowwiseParallel(input_layouts=Replicate()), "head": head()}
    return {
        "token_embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "position_embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0)),
        "norm": SequenceParallel(),
        "head": head(input_layouts=Shard(1)),
    }


def stages(model: MiniGPT, mesh: DeviceMesh, schedule: str = "1F1B") -> list[Stage]:
    """This rank's stages of the model: one, or two for a schedule that visits each rank twice."""
    ranks, rank, kind = mesh.size(), mesh.get_local_rank(), schedule_of(schedule)
    count = ranks * kind.stages_per_rank
    mine = [rank, count - 1 - rank] if kind.v_shaped else range(rank, count, ranks)
    return [Stage(model, index, count) for index in mine]


def pipeline(
    parts: list[Stage], mesh: DeviceMesh, schedule: str = "1F1B", microbatches: int = 4
) -> Callable[[Tensor, Tensor], Tensor]:
    """Runs this rank's stages forward and backward over a batch: (tokens, targets) to the loss.

    The loss is the mean over the micro-batches on the rank of the last stage, zero on the others.
    """
    cls, kind = get_schedule_class(schedule), schedule_of(schedule)
    device, count = next(parts[0].parameters()).device, mesh.size() * kind.stages_per_rank
    wrapped = [PipelineStage(part, part.index, count, device, group=mesh.get_group()) for part in parts]
    # The loss is divided by the micro-batches here: `scale_grads` would divide a parameter of two stages twice.
    timetable = cls(
        wrapped if kind.stages_per_rank > 1 else wrapped[0],
        microbatches,
        loss_fn=lambda logits, targets: F.cross_entropy(logits.flatten(0, 1), targets.flatten()) / microbatches,
        scale_grads=False,
    )
    first, last = any(part.first for part in parts), any(part.last for part in parts)

    def run(tokens: Tensor, targets: Tensor) -> Tensor:
        losses: list[Tensor] = []
        inputs, ends = ((tokens,) if first else ()), ({"target": targets, "losses": losses} if last else {})
        timetable.step(*inputs, **ends, return_outputs=False)  # or the logits of all micro-batches are put together
        return torch.stack(losses).sum().detach() if last else torch.zeros((), device=device)

    return run


def _whole(value: Tensor) -> Tensor:
    """All of a tensor, on the CPU. Along two axes the inner slices, FSDP's, are put together first: they lie inside."""
    if isinstance(value, DTensor) and value.device_mesh.ndim > 1:
        value = value.redistribute(placements=[Replicate(), *value.placements[1:]])
    return (value.full_tensor() if isinstance(value, DTensor) else value).cpu().clone()


def _blocks(model: nn.Module) -> list[Any]:
    """A MiniGPT's or a `Stage`'s: torch does not type what a container of modules holds."""
    blocks: Any = model.blocks
    return list(blocks.values() if isinstance(blocks, nn.ModuleDict) else blocks)


# ---- patterns by name, and their combinations
def make_mesh(
    pattern: str, devices: int | None = None, device: str | None = None, config: GPTConfig | None = None, **sizes: int
) -> DeviceMesh:
    """The mesh of the pattern's axes over all ranks, with sizes as in `mesh_sizes`.

    devices: the number of ranks, by default that of the process group. device: "cpu" or "cuda", by default the
    process group's. config: of the model that it is for, where more than one size is to be chosen. ValueError if
    devices is not the number of ranks that run, or none run.
    """
    pattern_of(pattern)
    for name, size in (sizes if devices is None else {"devices": devices, **sizes}).items():
        whole(name, size)
    if device is not None:
        one_of("device", device, ("cpu", "cuda"))
    if not dist.is_initialized():
        raise ValueError("no ranks run, so there is nothing to lay out: start them with torchrun, as mini_model.hello")
    running = dist.get_world_size()
    sizes = mesh_sizes(config, pattern, running if devices is None else devices, **sizes)
    if devices not in (None, running):
        raise ValueError(
            f"a mesh of {devices} devices on {running} ranks: each rank is one device. Start {devices} ranks"
        )
    device = device or ("cuda" if dist.get_backend() == "nccl" else "cpu")
    return init_device_mesh(device, tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def parallelize(
    model: MiniGPT,
    pattern: str,
    mesh: DeviceMesh | int | None = None,
    *,
    schedule: str = "1F1B",
    microbatches: int = 4,
    dtype: torch.dtype | None = None,
    mode: str | None = None,
    gathered_logits: bool = False,
) -> Parallel:
    """The model spread over the mesh by a pattern of `PATTERNS`. It is taken apart: use the result, not the model.

    mesh: of the pattern's axes, or a number of devices as in `make_mesh`. schedule, microbatches: of the pipeline.
    dtype: of the computation (autocast), and of what FSDP gathers. mode: each block is compiled, in that mode.
    gathered_logits: under tensor parallel every rank computes the loss of all logits, instead of its slice's part.
    ValueError for an unknown name or a size that does not divide, TypeError for what is no model, mesh or floating
    dtype, before anything is changed.
    """
    axes = pattern_of(pattern).axes
    instance("model", model, MiniGPT), instance("mesh", mesh, DeviceMesh, int, type(None))
    schedule_of(schedule), whole("microbatches", microbatches)
    if instance("dtype", dtype, torch.dtype, type(None)) not in (None, torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"dtype is {dtype}; it must be torch.bfloat16, torch.float16, torch.float32 or None")
    if any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        raise ValueError("the model is already spread over a mesh, in slices: parallelize takes a new MiniGPT")
    if not isinstance(mesh, DeviceMesh):
        mesh = make_mesh(pattern, mesh, next(model.parameters()).device.type, model.config)
    if mesh.mesh_dim_names != axes:
        raise ValueError(
            f"the mesh has axes {mesh.mesh_dim_names}, and pattern {pattern!r} needs {axes}. "
            f"make_mesh({pattern!r}, config=model.config) makes one"
        )
    check(model.config, pattern, dict(zip(axes, mesh.shape, strict=True)), schedule, microbatches, mode)

    staged = stages(model, mesh["pp"], schedule) if "pp" in axes else []
    parts: list[nn.Module] = [*staged] or [model]
    for part in parts:
        if "tp" in axes:
            tensor_parallel(part, mesh["tp"], pattern_of(pattern).sequence, gathered_logits)
        if "cp" in axes:
            context_parallel(model, mesh["cp"])
        if "ep" in axes:
            expert_parallel(model, mesh["ep"])
        for block in _blocks(part) if mode else ():
            block.compile(mode=mode, fullgraph=True)
        for axis in set(axes) & set(SLICED_AXES):
            fsdp(part, mesh["replicate", axis] if "replicate" in axes else mesh[axis], dtype)
    wrapped = ddp(model, mesh) if axes == ("replicate",) else None
    run = pipeline(staged, mesh["pp"], schedule, microbatches) if "pp" in axes else _whole_model(wrapped or model)
    if "tp" in axes and not gathered_logits:
        run = _of_sliced_logits(run)
    return Parallel(model.config, parts, mesh, run, wrapped, microbatches, dtype)


def _whole_model(module: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    def run(tokens: Tensor, targets: Tensor) -> Tensor:
        loss = module(tokens, targets)
        loss.backward()
        return loss.detach()

    return run


def _of_sliced_logits(run: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Each rank computes its slice's part of the loss: the ranks exchange three numbers a token, and no logits."""

    def with_sliced_logits(tokens: Tensor, targets: Tensor) -> Tensor:
        with loss_parallel():
            loss = run(tokens, targets)
        return loss.full_tensor() if isinstance(loss, DTensor) else loss

    return with_sliced_logits


class Parallel:
    """A model spread over a mesh: one training step and one set of names, whatever the pattern.

    parts: what this rank holds of the model, plain modules whose parameters are tensors or DTensors. run: forward and
    backward of this rank's rows, to their loss. wrapped: the DistributedDataParallel around the model, if there is one.
    """

    def __init__(
        self,
        config: GPTConfig,
        parts: list[nn.Module],
        mesh: DeviceMesh,
        run: Callable[[Tensor, Tensor], Tensor],
        wrapped: nn.Module | None,
        microbatches: int,
        dtype: torch.dtype | None,
    ) -> None:
        self.config, self.parts, self.mesh, self.run, self.wrapped = config, parts, mesh, run, wrapped
        self.microbatches, self.dtype = microbatches, dtype
        self.sizes = dict(zip(mesh.mesh_dim_names or (), mesh.shape, strict=True))

    def step(self, tokens: Tensor, targets: Tensor, average: bool = True) -> Tensor:
        """Forward and backward on the whole batch, which every rank is given: gradients in place of the earlier ones.

        tokens, targets: int64 [batch, length], of which this rank takes its rows. Returns the loss over the whole
        batch, on every rank; with average=False that of this rank's rows (zero on a pipeline rank without the last
        stage), and the small all-reduces of the loss are left out. ValueError if the batch does not divide.
        """
        check_batch(len(tokens), self.sizes, self.microbatches)
        check_length(tokens.shape[1], self.sizes)
        for parameter in self.parameters():
            parameter.grad = None
        with torch.autocast(tokens.device.type, self.dtype, enabled=self.dtype is not None):
            loss = self.run(self._own(tokens), self._own(targets))
        self._finish_gradients()
        return self._average(loss) if average else loss

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """This rank's parameters, each once, under the names of the one-process model.

        A tied head that is a pipeline stage apart from the embedding goes by the embedding's name.
        """
        seen = set()
        for part in self.parts:
            for name, parameter in part.named_parameters():
                name = "token_embedding.weight" if self.config.tied_head and name == "head.weight" else name
                if name not in seen:
                    seen.add(name)
                    yield name, parameter

    def parameters(self) -> list[nn.Parameter]:
        return [parameter for _, parameter in self.named_parameters()]

    def parameter_groups(self) -> list[dict[str, list[nn.Parameter]]]:
        """For an optimizer: plain tensors and the DTensors of each mesh in groups of their own.

        The fused and foreach forms of an optimizer take no mixture of them.
        """
        groups: dict[DeviceMesh | None, list[nn.Parameter]] = {}
        for parameter in self.parameters():
            groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
        return [{"params": parameters} for parameters in groups.values()]

    def full_gradients(self) -> dict[str, Tensor]:
        """The gradients of the whole model, on the CPU of every rank, under the names of the one-process model.

        ValueError before the first step.
        """
        return self._full(lambda parameter: parameter.grad)

    def full_weights(self) -> dict[str, Tensor]:
        """The weights of the whole model, on the CPU of every rank; `MiniGPT.load_state_dict` takes them."""
        weights = self._full(lambda parameter: parameter.detach())
        return weights | ({"head.weight": weights["token_embedding.weight"]} if self.config.tied_head else {})

    def _full(self, of: Callable[[nn.Parameter], Tensor | None]) -> dict[str, Tensor]:
        mine = {}
        for name, parameter in self.named_parameters():
            if (found := of(parameter)) is None:
                raise ValueError(f"{name} has no gradient yet: run a step before full_gradients()")
            value = _whole(found)
            headwise = "tp" in self.sizes and ".attention.qkv." in name
            mine[name] = by_kind(value, self.config.heads) if headwise else value
        if "pp" not in self.sizes:
            return mine
        gathered: list[dict[str, Tensor]] = [{} for _ in range(self.sizes["pp"])]
        dist.all_gather_object(gathered, mine, group=self.mesh.get_group("pp"))
        return {name: value for part in gathered for name, value in part.items()}

    def _own(self, batch: Tensor) -> Tensor:
        """This rank's rows, and of them its positions."""
        for axis in DATA_AXES:
            if axis in self.sizes:
                batch = batch.chunk(self.sizes[axis])[self.mesh.get_local_rank(axis)]
        if "cp" in self.sizes:
            batch = batch[:, places(batch.shape[1], self.sizes["cp"])[self.mesh.get_local_rank("cp")]]
        return batch.contiguous()  # torch 2.11's stages take only the strides that they expect

    def _finish_gradients(self) -> None:
        """What the backward leaves to do: sums over slices of a sequence, a tied head's halves, the mean over ranks.

        An expert's gradient is of all ranks' rows, and so of the sum of their losses; FSDP has averaged the others'.
        """
        for parameter in self.parameters():
            gradient = parameter.grad
            if not isinstance(parameter, DTensor) or not isinstance(gradient, DTensor):
                continue
            if gradient.placements != parameter.placements:
                parameter.grad = gradient.redistribute(placements=parameter.placements)
        for mixture in (each for part in self.parts for each in part.modules() if isinstance(each, ExchangedMixture)):
            for expert in (mixture.up, mixture.down):
                if expert.grad is not None:
                    expert.grad /= self.sizes["ep"]
        if self.config.tied_head and self.sizes.get("pp", 1) > 1:
            self._add_tied_gradient()

    def _add_tied_gradient(self) -> None:
        """The first stage has the embedding's half, the last the head's: they swap and both add, and so stay tied."""
        ends = {part.first: part for part in self.parts if part.first or part.last}
        if len(ends) != 1:  # neither, or both on one rank (a V-shaped schedule), where it is one parameter
            return
        is_first, part = ends.popitem()
        end: Any = part.token_embedding if is_first else part.head
        gradient = end.weight.grad
        gradient = gradient.to_local() if isinstance(gradient, DTensor) else gradient
        group = self.mesh.get_group("pp")
        peer = dist.get_global_rank(group, self.sizes["pp"] - 1 if is_first else 0)
        other = torch.empty_like(gradient)
        swap = [dist.P2POp(dist.isend, gradient, peer, group), dist.P2POp(dist.irecv, other, peer, group)]
        for work in dist.batch_isend_irecv(swap):
            work.wait()
        gradient.add_(other)

    def _average(self, loss: Tensor) -> Tensor:
        for axis in self.sizes:
            if axis != "tp":  # there every rank has it
                dist.all_reduce(loss, group=self.mesh.get_group(axis))
            if axis in (*DATA_AXES, "cp"):
                loss /= self.sizes[axis]
        return loss
