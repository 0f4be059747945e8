"""Context parallel of a given model: its attention calls, and what a device of many holds and sends that has a part of
each sequence, and gathers the keys and values of all.

torch's own ``context_parallel`` knows attention kernels of GPUs alone (2.13: "Operator
aten._scaled_dot_product_flash_attention_for_cpu.default does not have a sharding strategy registered"). So the step
runs on a batch whose sequences are cut, and each attention gathers keys and values as Llama 3's training does
(Grattafiori et al., 2024).
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from .._torch.dispatcher import without_fakes
from ..devices.collectives import Program, counted, fake_process_group, held_here
from ..simulator.collectives import WORLD, Collective, Held
from ..tensors import nbytes
from .given import GivenModel, raised
from .sharded import forget_gradients, fully_sharded, one_axis, step_of
from .shares import AttentionCall, OnDevices, PatternRefused, SharedSequences

Attention = Callable[..., Tensor]
"""Called as ``F.scaled_dot_product_attention`` is."""
KEYS_AND_VALUES = {
    "all_gather": "all_gather of keys and values",
    "reduce_scatter": "reduce_scatter of their gradients",
}


def context_parallel(given: GivenModel, devices: int) -> OnDevices:
    """Each device has a part of the positions of every sequence of the batch, and a slice of each parameter, as FSDP2.

    Raises PatternRefused where there is no attention, or the devices do not divide the sequence.
    """
    calls = attention_calls(given)
    if not calls:
        raise PatternRefused(
            "No attention was seen: the forward calls `F.scaled_dot_product_attention` nowhere",
            "context parallel cuts sequences and exchanges keys and values; without attention take `--pattern fsdp`, "
            "and an attention that is written out as a softmax has to call `F.scaled_dot_product_attention`",
        )
    shared = SharedSequences(max(calls, key=lambda call: call.pairs).keys, calls)
    pieces = devices * (1 + shared.causal)
    if shared.length % pieces or shared.length == pieces == 1:
        each = "two equal pieces, one of the front and one of the back" if shared.causal else "equally many positions"
        raise PatternRefused(
            f"A sequence of {shared.length} positions cannot be divided among {devices} devices: each takes {each}",
            f"make the length a multiple of {pieces}, or take fewer devices",
        )
    try:
        return _run(given, devices, shared, _cut(given, shared.length, devices))
    except Exception as error:
        return _computed(given, devices, replace(shared, not_run=raised(error)))


def attention_calls(given: GivenModel) -> tuple[AttentionCall, ...]:
    """Every attention of one eager forward of the whole batch."""
    calls: list[AttentionCall] = []

    def noted(plain: Attention, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        mask = args[0] if args else kwargs.get("attn_mask")
        causal = bool(args[2] if len(args) > 2 else kwargs.get("is_causal"))
        sizes = int(query.shape[-2]), int(key.shape[-2])
        pairs = query.shape[:-1].numel() * sizes[1]
        calls.append(AttentionCall(*sizes, causal, mask is not None, nbytes(key) + nbytes(value), pairs))
        return plain(query, key, value, *args, **kwargs)

    with given.fakes, torch.enable_grad(), torch.compiler.set_stance("force_eager"), attention_by(noted):
        given.model(*given.args, **given.kwargs)
    return tuple(calls)


@contextlib.contextmanager
def attention_by(answer: Attention) -> Iterator[None]:
    """In the block ``answer(plain, query, key, value, …)`` stands for ``F.scaled_dot_product_attention``.

    A mode sees what was imported by its name; torch's own modules call it where no mode looks, so its name in
    ``torch.nn.functional`` is replaced, too.
    """
    plain, busy = F.scaled_dot_product_attention, False

    def attend(*args: Any, **kwargs: Any) -> Tensor:
        nonlocal busy
        if busy:
            return plain(*args, **kwargs)
        busy = True
        try:
            return answer(plain, *args, **kwargs)
        finally:
            busy = False

    class Seen(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return (attend if func is plain else func)(*args, **(kwargs or {}))

    with mock.patch.object(F, "scaled_dot_product_attention", attend), Seen():
        yield


def _of_all(own: Tensor, mesh: DeviceMesh) -> Tensor:
    """Keys or values of all devices, one after another along the positions; the gradient is summed, and each gets its
    own."""
    sliced = DTensor.from_local(own, mesh, [Shard(own.ndim - 2)], run_check=False)
    return sliced.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()])


def _over_all(length: int, mesh: DeviceMesh) -> Attention:
    """Attention of a device that has ``length`` positions: to the keys and values of all."""

    def attend(
        plain: Attention,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **options: Any,
    ) -> Tensor:
        if key.shape[-2] != length:
            return plain(query, key, value, attn_mask, dropout_p, is_causal, **options)
        keys, values = _of_all(key, mesh), _of_all(value, mesh)
        if attn_mask is not None and attn_mask.shape[-1] == length:
            attn_mask = attn_mask.repeat(*[1] * (attn_mask.ndim - 1), mesh.size())
        if not is_causal:
            return plain(query, keys, values, attn_mask, dropout_p, **options)
        # The first device's two pieces: the front looks at itself, the back at everything. No mask is made: values mean
        # nothing here, and a GPU's kernel keeps none.
        ends = length // 2, length * mesh.size()
        pieces = [
            plain(each, keys[..., :end, :], values[..., :end, :], None, dropout_p, **options)
            for each, end in zip(query.chunk(2, -2), ends, strict=True)
        ]
        return torch.cat(pieces, -2)

    return attend


def _run(given: GivenModel, devices: int, shared: SharedSequences, cut: GivenModel) -> OnDevices:
    length = shared.length // devices
    with fake_process_group(devices):
        mesh = one_axis(devices, "cp")
        with without_fakes():  # a group of its own, so that what it sends is counted by itself
            of_keys = DeviceMesh.from_group(dist.new_group(list(range(devices))), "cpu")
        model, wrapped = fully_sharded(given, mesh)
        lengths: list[int] = []
        over_all = _over_all(length, of_keys)

        def noted(plain: Attention, query: Tensor, key: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            lengths.append(key.shape[-2])
            return over_all(plain, query, key, *args, **kwargs)

        def step() -> None:
            with attention_by(noted):
                step_of(model, cut)()

        program = Program(step, [model], mesh)
        sent = counted(program, warm_up=1)
        if length not in lengths:
            raise ValueError(f"cut to {length} positions, its attention still sees {max(lengths, default=0)}")
        forget_gradients(model)
        held = held_here(program)
    exchanged = tuple((KEYS_AND_VALUES[each.kind], replace(each, axis="cp")) for each in sent if each.axis == WORLD)
    rest = tuple(each for each in sent if each.axis != WORLD)
    return OnDevices("cp", devices, held, rest, wrapped, exchanged, sequence=shared)


def _computed(given: GivenModel, devices: int, shared: SharedSequences) -> OnDevices:
    """From the whole step under FSDP2 and its attention calls: activations are divided, and keys and values whole."""
    with fake_process_group(devices):
        mesh = one_axis(devices, "cp")
        model, wrapped = fully_sharded(given, mesh)
        program = Program(step_of(model, given), [model], mesh)
        sent = counted(program, warm_up=1)
        forget_gradients(model)
        whole = held_here(program)
    keys = sum(call.nbytes for call in shared.over_it)
    activations = (whole.activations + (devices - 1) * keys) // devices
    held = Held(whole.parameters, whole.gradients, whole.optimizer, activations)
    exchanged = tuple(
        (label, Collective(kind, "cp", devices, 2 * len(shared.over_it), keys))
        for kind, label in KEYS_AND_VALUES.items()
    )
    return OnDevices("cp", devices, held, sent, wrapped, exchanged, sequence=shared)


def _cut(given: GivenModel, length: int, devices: int) -> GivenModel:
    """The batch with a device's part of each tensor that has a dimension of the sequence. ValueError if none has."""
    done = False

    def part(tensor: Tensor) -> Tensor:
        nonlocal done
        at = _positions(tensor, length)
        done = done or at is not None
        return tensor if at is None else tensor.narrow(at, 0, length // devices).clone()

    with given.fakes:
        args, kwargs = tree_map_only(Tensor, part, (given.args, dict(given.kwargs)))
    if not done:
        raise ValueError(f"no tensor of the batch has a dimension of {length} positions: the model makes them itself")
    return replace(given, args=args, kwargs=kwargs)


def _positions(tensor: Tensor, length: int) -> int | None:
    """The dimension of a tensor that is the sequence's: the first of that size behind the batch's, or else that; of a
    square mask that of the queries."""
    if tensor.ndim > 1 and tensor.shape[-2:] == (length, length) and not _is_tokens(tensor):
        return tensor.ndim - 2
    return next((at for at in (*range(1, tensor.ndim), 0) if at < tensor.ndim and tensor.shape[at] == length), None)


def _is_tokens(tensor: Tensor) -> bool:
    return tensor.dtype in (torch.int32, torch.int64)
