"""The hang lab as a reader sees it: a card for each case, with the program, torch's words, ours, and the cure."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from compile_lab.doors import door
from compile_lab.page.tables import Code, marked_up

from .runs import HangResult

_OPTIONS = re.compile(r"TensorOptions\((?:[^()]|\([^()]*\))*\)")
_STACK = re.compile(r"(collective stack trace: \n)(.*?)(?=\nNot all ranks|\nCollective sequence|\Z)", re.DOTALL)


@door
@dataclass(frozen=True)
class HangCards:
    """A card for each result, closed: what happened, and what is odd about its naming or its cure; inside, the rest.

    The first is open. Raises ValueError without a result.
    """

    results: Sequence[HangResult]

    def __post_init__(self) -> None:
        if not self.results:
            raise ValueError("nothing to show: judge() runs a case")

    def __repr__(self) -> str:
        return "\n".join(f"{each.title}: {_answered(each)}" for each in self.results)

    def _repr_html_(self) -> str:
        return "\n".join(_card(each, at == 0) for at, each in enumerate(self.results))


def _answered(each: HangResult) -> str:
    if not each.ours:
        return "not named"
    return f"named {each.after_s:.2f} s after the failure, {'cured' if each.cured else 'its cure no longer holds'}"


def _card(each: HangResult, is_open: bool) -> str:
    odd = "" if each.ours and each.cured else f' <span class="lab-note">{_answered(each)}</span>'
    parts = [
        f"<p>{marked_up(each.why)}</p>",
        Code(each.program, mark=each.marked)._repr_html_(),
        '<p class="lab-code-title">What torch says</p>',
        _by_rank(each.torch),
    ]
    if each.detail:
        parts.append(_folded("torch, with <code>TORCH_DISTRIBUTED_DEBUG=DETAIL</code>", _by_rank(each.detail)))
    if each.analyser:
        told = _preformatted(_STACK.sub(r"\1(…)", each.analyser))
        parts.append(_folded("torch's analyser of the flight recorders, <code>torchfrtrace</code>", told))
    parts += [
        f'<p class="lab-code-title">What ours says, {each.after_s:.2f} s after the first rank failed</p>',
        _preformatted(each.ours),
        f'<p class="lab-code-title">The cure</p><p>{marked_up(each.cured_by)}</p>',
        "" if each.cure == each.program else Code(each.cure)._repr_html_(),
        f'<p class="lab-note">{_result(each)}</p>',
    ]
    return (
        f'<details class="lab-break lab-hang" id="{each.name}"{" open" * is_open}><summary>{marked_up(each.title)}'
        f"{odd}</summary>{''.join(parts)}</details>"
    )


def _result(each: HangResult) -> str:
    if each.cured:
        return f"Run on {each.ranks} ranks, each returned <code>{html.escape(each.expected)}</code>."
    return f"Run on {each.ranks} ranks: {html.escape('; '.join(each.got))}, for {html.escape(each.expected)}."


def _by_rank(messages: Sequence[str]) -> str:
    return _preformatted("\n".join(f"rank {rank}: {message}" for rank, message in enumerate(messages)))


def _preformatted(text: str) -> str:
    return f'<pre class="lab-said">{html.escape(_OPTIONS.sub("TensorOptions(…)", text))}</pre>'


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>{body}</details>"
