"""Expert parallel on real ranks: each holds some of the experts, and rows travel to them and back.

Rank r of n has ``tokens`` of its own and experts r · EXPERTS/n to (r + 1) · EXPERTS/n; the router is the same on every
rank. A row is what one assignment sends: WIDTH numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from compile_lab.devices import ranks

from .layer import EXPERTS, WIDTH, MoE, by_expert, combined, expert_mlp, grads, grouped_mlp, route, tokens

ROW_BYTES = 4 * WIDTH
"""Of one row, in float32."""


def skewed(by: float) -> Tensor:
    """A bias of the router by which the first expert is the most popular: from ``by`` down to −``by``."""
    return by * torch.linspace(1, -1, EXPERTS)


def layer(
    x: Tensor,
    router: Tensor,
    bias: Tensor,
    up: Tensor,
    down: Tensor,
    n: int,
    matmuls: str = "loop",
) -> Tensor:
    """The routed layer over ``n`` ranks, each with its part of ``up`` and ``down``.

    ``matmuls`` is "loop" or "grouped".
    """
    routed = route(x, router, bias)
    order, counts = by_expert(routed.expert)

    # How many rows come, from each rank for each expert here.
    coming = funcol.all_to_all_single(counts, None, None, dist.group.WORLD)
    coming = funcol.wait_tensor(coming)
    both = torch.stack([counts.view(n, -1).sum(1), coming.view(n, -1).sum(1)])
    send, receive = both.tolist()
    rows = funcol.all_to_all_single_autograd(x[routed.token[order]], receive, send, dist.group.WORLD)

    # They come sorted by rank, then by expert. The experts want them sorted by expert.
    local = coming.view(n, -1)
    mine = torch.arange(local.shape[1]).repeat(n)
    sort = mine.repeat_interleave(local.flatten(), output_size=rows.shape[0]).argsort(stable=True)
    done = _experts(rows[sort], up, down, local.sum(0), matmuls)
    done = torch.zeros_like(rows).index_copy(0, sort, done)

    back = funcol.all_to_all_single_autograd(done, send, receive, dist.group.WORLD)
    return combined(x, routed, order, back)


def _experts(rows: Tensor, up: Tensor, down: Tensor, counts: Tensor, matmuls: str) -> Tensor:
    if matmuls == "grouped":
        return grouped_mlp(rows, up, down, counts)
    return torch.cat([expert_mlp(*each) for each in zip(rows.split(counts.tolist()), up, down, strict=True)])


@dataclass(frozen=True)
class Exchange:
    """One all-to-all of a rank: its pass, and how many bytes left the rank in it."""

    backward: bool
    sent: int


@dataclass(frozen=True)
class OnRank:
    """What a rank saw in one step."""

    held: int
    """Rows that its experts computed."""
    predicted: int
    """Bytes that its dispatch sends, from its routing: a row for each assignment to an expert elsewhere."""
    exchanges: tuple[Exchange, ...]
    values: list[Tensor]
    """Output, gradient of its tokens, of the router (over all ranks), of its experts' up and down."""

    @property
    def sent(self) -> int:
        """Bytes that left the rank in its step."""
        return sum(each.sent for each in self.exchanges)


class _Exchanges(TorchDispatchMode):
    """Writes down each all-to-all of eager code. (Compiled code is not seen: Dynamo gives up under a mode.)"""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Exchange] = []
        self.backward = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "all_to_all" in func.name():
            rows, _, send = args[:3]
            send = send or [len(rows) // dist.get_world_size()] * dist.get_world_size()
            away = sum(send) - send[dist.get_rank()]
            self.found.append(Exchange(self.backward, away * rows[:1].numel() * rows.element_size()))
        return func(*args, **(kwargs or {}))


def on_rank(count: int, by: float) -> OnRank:
    """One step in eager mode, forward and backward, of ``count`` tokens a rank under a skewed router."""
    n, rank = dist.get_world_size(), dist.get_rank()
    x, router, bias, up, down = own(MoE("loop", bias=skewed(by)), count)
    with _Exchanges() as exchanges:
        out = layer(x, router, bias, up, down, n)
        exchanges.backward = True
        out.square().sum().backward()
    for grad in grads(router):
        dist.all_reduce(grad)  # each rank has that of its own tokens
    counts = by_expert(route(x, router, bias).expert)[1].view(n, -1).sum(1)
    everywhere = [torch.zeros_like(counts) for _ in range(n)]
    dist.all_gather(everywhere, counts)
    return OnRank(
        held=sum(int(each[rank]) for each in everywhere),
        predicted=int(counts.sum() - counts[rank]) * ROW_BYTES,
        exchanges=tuple(exchanges.found),
        values=[out.detach(), *grads(x, router, up, down)],
    )


def own(whole: MoE, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """This rank's leaves: ``count`` tokens, the router, its bias, and its part of the experts' matrices."""
    n, rank = dist.get_world_size(), dist.get_rank()
    up, down = (each.detach().chunk(n)[rank].clone().requires_grad_() for each in (whole.up, whole.down))
    x = tokens(count * n).chunk(n)[rank].clone().requires_grad_()
    return x, whole.router.detach().clone().requires_grad_(), whole.bias, up, down


def run(count: int = 256, by: float = 0.0, n: int = 4) -> list[OnRank]:
    """One step on ``n`` ranks over gloo. Raises ValueError where the experts cannot be divided by them."""
    if EXPERTS % n:
        raise ValueError(f"n={n}: {EXPERTS} experts are divided evenly by 1, 2, 4 or 8 ranks")
    return ranks.run(on_rank, n, count, by, echo=False)


def apart(found: Sequence[OnRank], expected: Sequence[Tensor]) -> dict[str, float]:
    """How far the ranks' values, put together, are from one process's, each relative to its largest element."""
    together = [torch.cat([each.values[i] for each in found]) for i in (0, 1, 3, 4)]
    together.insert(2, found[0].values[2])
    names = "output", "tokens", "router", "up", "down"
    pairs = zip(names, together, expected, strict=True)
    return {name: ((one - exact).abs().max() / exact.abs().max()).item() for name, one, exact in pairs}
