"""Time and memory of attention against length: FlexAttention's masks beside a mask in a tensor, and every score.

All ways of one length are timed in turns, so that what changes with time changes all of them. The peers are torch's
own `scaled_dot_product_attention`: with the mask as a tensor, and with ``is_causal``, which has a kernel of its own.
"""

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.measure.judge import largest_relative_error
from compile_lab.measure.timing import durations_ms, summary_ms
from compile_lab.memory.measured import measure_peak

from ...experiment import Attempts
from ...registry import Progress
from ...shared import subjects
from ..flex import attend, dense, inputs

BUDGET_S = 300.0
LENGTHS = {"cuda": (1024, 4096, 16_384, 32_768, 512, 2048, 8192), "cpu": (256, 128)}
"""In an order in which what is left out, when time is over, is missed least."""
HEADS, WIDTH = {"cuda": 16, "cpu": 1}, {"cuda": 64, "cpu": 16}
DTYPE = {"cuda": torch.bfloat16, "cpu": torch.float32}
WINDOW, DOCUMENT = {"cuda": 512, "cpu": 32}, {"cuda": 1024, "cpu": 50}
"""Tokens of the window; of a document, in the mean."""
JUDGED = 2048
"""Up to this length results are held against float64, whose scores must fit."""
ROUNDS, IN_A_ROW = 7, 3

Results = tuple[Tensor, ...]
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def record(device: str, progress: Progress = iter, *, budget_s: float = BUDGET_S) -> dict[str, Any]:
    """Milliseconds, bytes at the peak and errors of each way at each length, as plain JSON values; five minutes.

    ``{"heads", "width", "dtype", "window", "document", "rows": [{"way", "length", "part", "median_ms", "low_ms",
    "high_ms", "peak_nbytes", "first_s", "error"}], "masks": [{"mask", "length", "visited", "blocks"}],
    "stopped": [{"way", "length", "part", "stopped"}]}``. ``part`` is "forward" (without gradients) or "step" (forward
    and backward), and "made" where a block mask is made. ``peak_nbytes`` is without the inputs; ``first_s`` is the
    first call, which compiles; ``error`` the largest difference from float64, of the output or of any gradient, in
    parts of the largest element, None above 2,048 tokens. What fails, or would begin after ``budget_s`` seconds, is in
    ``stopped``.
    """
    study = FlexStudy(device, Attempts(budget_s))
    for length in progress(LENGTHS[device]):
        study.at(length)
    reset_dynamo()
    return {
        "heads": HEADS[device],
        "width": WIDTH[device],
        "dtype": str(DTYPE[device]).removeprefix("torch."),
        "window": WINDOW[device],
        "document": DOCUMENT[device],
        "rows": study.rows,
        "masks": study.masks,
        "stopped": study.attempts.stopped,
    }


class FlexStudy:
    """One run: what was measured of each way at each length, and what was stopped."""

    def __init__(self, device: str, attempts: Attempts) -> None:
        self.device, self.attempts = device, attempts
        self.rows: list[dict[str, Any]] = []
        self.masks: list[dict[str, Any]] = []

    def at(self, length: int) -> None:
        """Everything at one length; what was compiled and kept for another is forgotten before."""
        reset_dynamo()
        if self.device == "cuda":
            torch.cuda.empty_cache()
        masks = subjects.attention_masks(length, WINDOW[self.device], DOCUMENT[self.device], self.device)
        made = inputs(1, HEADS[self.device], length, WIDTH[self.device])
        qkv = tuple(tensor.to(self.device, DTYPE[self.device]) for tensor in made)
        calls: dict[tuple[str, str], Callable[[], Any]] = {
            ("made", f"mask, {name}"): self._maker(mask, length) for name, mask in masks.items()
        }
        blocks = {
            name: self.run_in_time("made", f"mask, {name}", length, calls["made", f"mask, {name}"]) for name in masks
        }
        self.masks += [_visited(name, length, found) for name, found in blocks.items() if found]
        calls["made", "mask, causal, compiled"] = self._maker(masks["causal"], length, compiled=True)
        ways = self.run_in_time("made", "mask in a tensor", length, lambda: _dense(length, self.device)) or {}
        ways |= {f"flex, {name}": _flex(found) for name, found in blocks.items() if found}
        for part, run in (("forward", _forward), ("step", _step)):
            calls |= {(part, way): functools.partial(run, attention, qkv) for way, attention in ways.items()}
        self._in_turns(length, {key: self._begun(*key, length, call) for key, call in calls.items()}, calls)
        if length <= JUDGED:
            self._judged(length, qkv, masks, calls)

    def run_in_time(self, part: str, way: str, length: int, work: Callable[[], Any]) -> Any:
        """What some work gives, or None, with the reason kept: that it failed, or that the time was over."""
        return self.attempts.in_time(work, way=way, length=length, part=part)

    def tried(self, part: str, way: str, length: int, work: Callable[[], Any]) -> Any:
        """The same, whatever the time is."""
        return self.attempts.tried(work, way=way, length=length, part=part)

    def _maker(self, mask: Callable[..., Tensor], length: int, compiled: bool = False) -> Callable[[], BlockMask]:
        make = torch.compile(create_block_mask, dynamic=False, fullgraph=True) if compiled else create_block_mask
        return functools.partial(make, mask, None, None, length, length, device=self.device)

    def _begun(self, part: str, way: str, length: int, call: Callable[[], Any]) -> dict[str, Any] | None:
        """A row as far as it is known after the first calls: how long the first took, and bytes at the peak."""

        def begin() -> dict[str, Any]:
            start = time.perf_counter()
            call()
            if self.device == "cuda":
                torch.cuda.synchronize()
            first_s = round(time.perf_counter() - start, 3)
            return {"first_s": first_s, "peak_nbytes": measure_peak(call).peak_nbytes}

        found = self.run_in_time(part, way, length, begin)
        return found and {"way": way, "length": length, "part": part, **found, "error": None}

    def _in_turns(self, length: int, begun: Mapping[Any, dict[str, Any] | None], calls: Mapping[Any, Any]) -> None:
        rows = {key: row for key, row in begun.items() if row}
        taken: dict[tuple[str, str], list[float]] = {key: [] for key in rows}
        for turn in range(ROUNDS):
            if turn and self.attempts.late:
                break  # what is begun has been measured once at least
            for (part, way), times in taken.items():
                some = functools.partial(durations_ms, calls[part, way], torch.device(self.device), IN_A_ROW)
                times += self.tried(part, way, length, some) or []
        for key, times in taken.items():
            if times:
                self.rows.append({**rows[key], **summary_ms(times)})

    def _judged(self, length: int, qkv: Results, masks: Mapping[str, Any], calls: Mapping[Any, Any]) -> None:
        """Enter into the rows of a length how far their results are from dense attention in float64."""
        wide = tuple(tensor.double() for tensor in qkv)
        exact = {name: _step(functools.partial(dense, score=None, mask=mask), wide) for name, mask in masks.items()}
        for row in self.rows:
            way, part = row["way"], row["part"]
            if row["length"] == length and part != "made":
                wanted = exact[way.partition(", ")[2] if way.startswith("flex") else "causal"]
                found = self.tried(f"{part}, judged", way, length, calls[part, way])
                errors = [largest_relative_error(*pair) for pair in zip(found or (), wanted, strict=False)]
                row["error"] = max(errors, default=None)


def _dense(length: int, device: str) -> dict[str, Attention]:
    """Causal attention by other means: every score, a mask in a tensor, a kernel that knows what causal is."""
    allowed = torch.ones(length, length, dtype=torch.bool, device=device).tril()

    def in_full(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~allowed, -torch.inf).softmax(-1) @ v

    return {
        "scores in full": in_full,
        "mask in a tensor": functools.partial(F.scaled_dot_product_attention, attn_mask=allowed),
        "is_causal": functools.partial(F.scaled_dot_product_attention, is_causal=True),
    }


def _flex(blocks: BlockMask) -> Attention:
    """A compiled attention for one mask. One whole graph or an error: nothing is to run eagerly unnoticed."""
    return torch.compile(functools.partial(attend, score=None, mask=blocks), dynamic=False, fullgraph=True)


def _forward(attention: Attention, qkv: Results) -> Results:
    with torch.no_grad():
        return (attention(*qkv),)


def _step(attention: Attention, qkv: Results) -> Results:
    """The output, and the gradients of its sum."""
    leaves = tuple(tensor.detach().requires_grad_() for tensor in qkv)
    output = attention(*leaves)
    return output.detach(), *torch.autograd.grad(output, leaves, torch.ones_like(output))


def _visited(name: str, length: int, blocks: BlockMask) -> dict[str, Any]:
    full = blocks.full_kv_num_blocks
    visited = int(blocks.kv_num_blocks.sum()) + (0 if full is None else int(full.sum()))
    return {"mask": name, "length": length, "visited": visited, "blocks": (-(-length // blocks.BLOCK_SIZE[0])) ** 2}
