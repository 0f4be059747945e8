"""What the recording ``inference`` holds, as the instrument's own dataclasses: by model, mode and shape."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..doors import door
from ..recordings import Recording
from ..simulator.serving import DecodeWork
from .service import PhaseCost, Request, RequestPayback, Stream, payback


@dataclass(frozen=True)
class Served:
    """One model, served in several modes. What was not measured is missing, or says in ``stopped`` why it is.

    ``restart``: the same requests in a second process, with the cache folder that the mode "default" left; None if that
    was not measured. ``import_s``: what that process took to import torch and build the model before its first request.
    ``errors``: by mode, how far the logits of a decode step are from the whole model's without a cache (relative).
    ``starts`` has further streams of a few requests for some modes, each begun from nothing. ``work`` is None for a
    model whose decode step is not held to a roofline.
    """

    name: str
    what: str
    usual: Request
    streams: Mapping[str, Stream]
    phases: tuple[PhaseCost, ...]
    errors: Mapping[str, float]
    work: DecodeWork | None
    restart: Stream | None
    import_s: float | None
    stopped: Mapping[str, str]
    starts: Mapping[str, tuple[Stream, ...]] = field(default_factory=dict)

    def pays(self, mode: str, against: str) -> RequestPayback | None:
        """After how many usual requests a mode has paid beside another; None where too few were answered."""
        if mode not in self.streams or against not in self.streams:
            return None
        return payback(self.streams[mode], self.streams[against], self.usual, self.starts)

    def phase(self, phase: str, mode: str, batch: int, prompt: int) -> PhaseCost | None:
        """The cost at that shape; None if it was not measured, or came to no end."""
        for cost in self.phases:
            if (cost.phase, cost.mode, cost.request.batch, cost.request.prompt) == (phase, mode, batch, prompt):
                return cost if cost.call else None
        return None


@dataclass(frozen=True)
class ServedModels:
    """All of a recording: the models by name, and the two rates measured in the same run that bound them.

    ``bytes_per_s``: of a copy, each byte read and written; ``flop_per_s``: of a large matmul in the models' precision.
    """

    models: Mapping[str, Served]
    bytes_per_s: float
    flop_per_s: float
    provenance: object


@door
def recorded(recording: Recording) -> ServedModels:
    """What a recording of ``inference`` says.

    >>> from compile_lab.inference import recorded
    >>> from compile_lab.recordings import load
    >>> {name: model.what for name, model in recorded(load("inference")).models.items()}
    {'gpt2-124m': 'GPT-2 124M, bf16, a cache of 1,024 slots', 'mini': 'MiniGPT, fp32, a cache of 64 slots'}
    """
    result = recording.result
    models = {}
    for one in result["models"]:
        streams = (Stream.from_json(each) for each in one["streams"])
        starts: dict[str, tuple[Stream, ...]] = {}
        for each in one.get("starts", ()):
            starts[each["mode"]] = (*starts.get(each["mode"], ()), Stream.from_json(each))
        models[one["name"]] = Served(
            name=one["name"],
            what=one["what"],
            usual=Request(**one["usual"]),
            streams={stream.mode: stream for stream in streams},
            phases=tuple(PhaseCost.from_json(each) for each in one["phases"]),
            errors=one["errors"],
            work=DecodeWork(**one["work"]) if one["work"] else None,
            restart=Stream.from_json(one["restart"]) if one["restart"] else None,
            import_s=one["import_s"],
            stopped=one["stopped"],
            starts=starts,
        )
    return ServedModels(models, result["rates"]["bytes_per_s"], result["rates"]["flop_per_s"], recording.provenance)
