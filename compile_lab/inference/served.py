"""What the recording ``inference`` holds, as the instrument's own dataclasses: by model, mode and shape."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..doors import door
from ..recordings import Recording
from ..simulator.serving import DecodeWork
from .service import PhaseCost, Request, Stream


@dataclass(frozen=True)
class Served:
    """One model, served in several modes. What was not measured is missing, or says in ``stopped`` why it is.

    ``restart``: the same requests in a second process, with the cache folder that the mode "default" left; None if that
    was not measured. ``import_s``: what that process took to import torch and build the model before its first request.
    ``errors``: by mode, how far the logits of a decode step are from the whole model's without a cache (relative).
    ``work`` is None for a model whose decode step is not held to a roofline.
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

    def phase(self, phase: str, mode: str, batch: int, prompt: int) -> PhaseCost | None:
        """The cost at that shape; None if it was not measured, or came to no end."""
        for cost in self.phases:
            if (cost.phase, cost.mode, cost.request.batch, cost.request.prompt) == (phase, mode, batch, prompt):
                return cost if cost.call else None
        return None


@dataclass(frozen=True)
class ServedModels:
    """All of a recording: the models by name, and the two rates measured in the same run that bound them.

    ``bytes_per_s``: of a copy, each byte read and written; ``flop_per_s``: of a large product in the models' precision.
    """

    models: Mapping[str, Served]
    bytes_per_s: float
    flop_per_s: float
    provenance: object


@door
def recorded(recording: Recording) -> ServedModels:
    """What a recording of ``inference`` says."""
    result = recording.result
    models = {}
    for one in result["models"]:
        streams = (Stream.from_json(each) for each in one["streams"])
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
        )
    return ServedModels(models, result["rates"]["bytes_per_s"], result["rates"]["flop_per_s"], recording.provenance)
