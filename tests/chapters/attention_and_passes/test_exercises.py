"""The exercises of chapter 22: what is wrong with an answer is said. Its solutions are checked by nbval."""

import torch
from answers import judged_as

neg = torch.ops.aten.neg.default


def left_standing(graph):
    for node in graph.find_nodes(op="call_function", target=neg):
        if node.args[0].target is neg:
            node.replace_all_uses_with(node.args[0].args[0])


def none_at_all(graph):
    for node in graph.find_nodes(op="call_function", target=neg):
        node.replace_all_uses_with(node.args[0])
    graph.eliminate_dead_code()


def by_blocks(q, k, v, mask, rows, block, forwards=False):
    out = torch.empty_like(q)
    for at, row in enumerate(rows):
        own = torch.arange(at * block, (at + 1) * block)
        best, total, mixed = torch.full((block, 1), -torch.inf), torch.zeros(block, 1), torch.zeros(block, v.shape[1])
        for place, letter in sorted(enumerate(row), reverse=not forwards):
            if letter == " ":
                continue
            other = torch.arange(place * block, (place + 1) * block)
            scores = q[own] @ k[other].T / q.shape[1] ** 0.5
            scores = scores.masked_fill(~mask(own[:, None], other[None, :]), -torch.inf)
            top = torch.maximum(best, scores.amax(1, keepdim=True))
            weights, kept = (scores - top).exp(), (best - top).exp()
            best, total = top, total * kept + weights.sum(1, keepdim=True)
            mixed = mixed * kept + weights @ v[other]
        out[own] = mixed / total
    return out


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("22.1", 128, "look back beyond"),
    ("22.2", lambda b, h, q, k: (q >= k) | (q < 32), "query 0 may not see key 32"),
    ("22.2", lambda b, h, q, k: True, "True and False"),
    ("22.3", left_standing, "negations are left"),
    ("22.3", none_at_all, "something else"),
    ("22.3", lambda graph: graph, "returns a graph"),
    ("22.4", lambda *given: by_blocks(*given, forwards=True), "NaN"),
    ("22.4", lambda *given: by_blocks(*given) * 1.01, "off"),
    ("22.4", lambda *given: by_blocks(*given)[:4], "this asks for"),
)
