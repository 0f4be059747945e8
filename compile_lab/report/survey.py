"""Does an architecture that nobody here wrote get every card, how soon, and is its peak the allocator's?"""

import time
from typing import Any

import torch

from .._torch.dynamo import reset_dynamo
from ..doors import door
from ..inductor.generated import GeneratedCode
from ..inductor.lowering import collecting
from ..memory.compiled import compiled_lifetimes
from ..memory.measured import measure_step
from ..recordings import here
from .architectures import ARCHITECTURES, made
from .captured import ReportOptions
from .given import GivenModel, given
from .model import state_kept, told

Row = dict[str, Any]


@door
def row(name: str) -> Row:
    """One of the fifty, reported on, with what a device of eight holds, and its peak measured.

    ``cards`` is each card's severity, ``failed`` the verdicts of those that could not be told, ``findings`` the names
    of what was found, ``seconds`` those of the whole report, ``parts`` of its parts. ``predicted_bytes`` and
    ``measured_bytes`` are the peak above what was there: of the code that Inductor wrote for this CPU, and of the
    allocator while it ran; ``between_calls_bytes`` leaves out what a library took and gave back inside a call, which no
    code of Inductor's tells. ``trouble`` says why they are None. KeyError for a name that is none of the fifty.
    """
    one = ARCHITECTURES[name]
    model, batch = made(name)
    begun = time.perf_counter()
    subject = given(model, batch, name=name)
    found = told(subject, ReportOptions(devices=8))
    seconds = time.perf_counter() - begun
    return {
        "name": name,
        "library": one.library,
        "kind": one.kind,
        "parameters": sum(each.numel() for each in model.parameters()),
        "rule": subject.rule,
        "seconds": round(seconds, 1),
        "parts": dict(found.seconds),
        "cards": {card.name: card.severity for card in found.cards},
        "failed": {card.name: card.verdict for card in found.cards if card.severity == "failed"},
        "findings": [each.name for each in found.findings],
        "unasked": list(found.unasked),
        **_peaks(subject),
    }


def _peaks(subject: GivenModel) -> Row:
    """The peak of one step on this CPU: predicted from the code that Inductor wrote, and the allocator's own."""
    loss = subject.loss
    reset_dynamo()
    try:
        with state_kept(subject.model), collecting() as graphs:
            compiled = torch.compile(loss)
            measured = measure_step(lambda: compiled(*subject.args, **subject.kwargs), subject.model.zero_grad)
            measured.require_compiled()
        code = GeneratedCode(tuple(graphs), None, here("compile_lab.report.survey"))
        predicted = compiled_lifetimes(code)
    except Exception as error:
        said = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
        return {"predicted_bytes": None, "measured_bytes": None, "between_calls_bytes": None, "trouble": said}
    finally:
        reset_dynamo()
    return {
        "predicted_bytes": predicted.peak_nbytes,
        "measured_bytes": measured.peak_nbytes,
        "between_calls_bytes": measured.between_calls_nbytes,
        "trouble": "",
    }
