"""Expert parallel on real ranks: what it computes, and what it sends."""

import pytest

from chapters.experts import parallel
from chapters.experts.captured import gradients
from chapters.experts.layer import MoE, by_expert, route, tokens


@pytest.mark.processes
@pytest.mark.parametrize(("n", "by"), [(4, 1.0), pytest.param(2, 0.0, marks=pytest.mark.matrix)])
def test_ranks_agree_with_one_process_and_send_what_the_routing_says(n, by):
    found = parallel.run(64, by, n)
    whole = MoE("loop", bias=parallel.skewed(by))
    apart = parallel.apart(found, gradients(whole, tokens(64 * n)))
    assert set(apart) == {"output", "tokens", "router", "up", "down"} and max(apart.values()) < 1e-6
    assert sum(each.held for each in found) == 64 * n * 2
    for rank, each in enumerate(found):
        x = tokens(64 * n).chunk(n)[rank]
        counts = by_expert(route(x, whole.router, whole.bias).expert)[1].view(n, -1).sum(1)
        away = int(counts.sum() - counts[rank]) * parallel.ROW_BYTES
        kinds = [one.backward for one in each.exchanges]
        assert kinds == [False, False, False, True, True] and each.exchanges[0].sent == 8 * (n - 1) * 8 // n
        dispatch, combine = (one.sent for one in each.exchanges[1:3])
        assert dispatch == each.predicted == away
        assert [one.sent for one in each.exchanges[3:]] == [dispatch, combine]  # gradients go the other way
        assert combine == (each.held - int(counts[rank])) * parallel.ROW_BYTES
        assert each.sent == sum(one.sent for one in each.exchanges)
