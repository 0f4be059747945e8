"""A given model's real step as on one of many imaginary devices, by one of `PATTERNS`."""

from torch.nn.parallel import DistributedDataParallel

from ..devices.collectives import Program, counted, fake_process_group, held_here
from .experts import expert_parallel
from .given import GivenModel
from .sequences import context_parallel
from .sharded import copied, forget_gradients, fully_sharded, one_axis, step_of
from .shares import OnDevices, PatternRefused
from .wrapping import DDP, FSDP2, wrapping

PATTERNS = ("ddp", "fsdp", "ep", "cp")


def on_devices(given: GivenModel, devices: int, pattern: str) -> OnDevices:
    """What a device holds and sends under data parallel ("ddp", "fsdp"), expert ("ep") or context parallel ("cp").

    Raises PatternRefused where the pattern does not go with the model or its batch, or one has been applied already.
    """
    already = wrapping(given)
    if already and (already.tensor_parallel or already.has(FSDP2, DDP)):
        raise PatternRefused(
            "The model is on several devices already: it is under FSDP2, DDP or TP",
            "hand over the model before it is wrapped; it is wrapped here",
        )
    match pattern:
        case "ep":
            return expert_parallel(given, devices)
        case "cp":
            return context_parallel(given, devices)
    with fake_process_group(devices):
        mesh = one_axis(devices, "replicate" if pattern == "ddp" else "shard")
        model, wrapped = (DistributedDataParallel(copied(given)), 0) if pattern == "ddp" else fully_sharded(given, mesh)
        program = Program(step_of(model, given), [model], mesh)
        sent = counted(program, warm_up=1)
        forget_gradients(model)
        return OnDevices(pattern, devices, held_here(program), sent, wrapped)
