"""check says what is wrong with an answer. The notebook's own starters and solutions are checked by nbval."""

import torch
from answers import judged_as

GATHER = torch.ops._c10d_functional.all_gather_into_tensor.default
WAIT = torch.ops._c10d_functional.wait_tensor.default


def without_their_casts(graph):
    first = next(node for node in graph.nodes if node.op == "call_function")
    for node in graph.find_nodes(op="call_function", target=GATHER):
        first.prepend(node)


def gathers_alone(graph):
    first = graph.find_nodes(op="call_function", target=WAIT)[0]
    for node in graph.find_nodes(op="call_function", target=GATHER):
        for each in (*node.all_input_nodes, node):
            first.prepend(each)


def forgetful(graph):
    for node in graph.find_nodes(op="call_function", target=WAIT):
        node.replace_all_uses_with(node.all_input_nodes[0])


def by_length(order, nbytes):
    starts = {token[2:]: at for at, token in enumerate(order) if token[:2] in ("AG", "RS")}
    return sum(size for at, size in enumerate(nbytes) if order.index(f"w{at}") - starts[str(at)] > 1)


test_a_wrong_answer_is_told_what_is_wrong = judged_as(
    ("23.1", 680, "what is left of its time"),
    ("23.1", 170, "more than 170"),
    ("23.1", 500, "fewer than 500"),
    ("23.2", lambda layers, ranks, again: 4 * sum(layers) + 2 * sum(layers), "and not the whole"),
    ("23.2", lambda layers, ranks, again: 6 * sum(layers) / ranks, "whole on every rank"),
    ("23.2", lambda layers, ranks, again: 4 * sum(layers) // ranks + 2 * sum(layers), "how many are whole at once"),
    ("23.2", lambda layers, ranks, again: 4 * sum(layers) // ranks + 2 * max(layers), "still there"),
    ("23.2", lambda layers, ranks, again: 4 * sum(layers) // ranks + 4 * sum(layers), "bytes has a number"),
    ("23.3", lambda order, nbytes: 0, "more bytes can hide"),
    ("23.3", lambda order, nbytes: nbytes, "a number of bytes"),
    ("23.3", by_length, "not all that lies between"),
    ("23.4", without_their_casts, "which it reads"),
    ("23.4", gathers_alone, "between wait_tensor"),
    ("23.4", forgetful, "not the same any more"),
    ("23.4", lambda graph: graph, "returns a graph"),
)
