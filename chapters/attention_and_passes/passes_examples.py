"""Passes to learn from: one that pays, and one that is wrong.

Each is a function of a graph of aten operations, which it changes, and may be handed to Inductor as it is.
"""

import operator
from collections.abc import Hashable

import torch
import torch.nn.functional as F
from torch import fx
from torch.utils._pytree import tree_flatten


def products_with_one_hot_are_lookups(graph: fx.Graph) -> None:
    """Write ``one_hot(tokens, n).float() @ table``, which picks rows of the table, as a lookup, with no one-hot matrix.

    Run over the captured graph, so that the gradient is the lookup's own. A finite table gives the same bits. Where one
    holds an infinity, the matmul gives NaN in every row, and the lookup only where that row is picked.
    """
    for product in [node for node in graph.nodes if node.target in (operator.matmul, torch.matmul)]:
        floats, table = product.args
        hot = floats.args[0] if floats.target == "float" else None
        if hot is None or getattr(hot.target, "__name__", "") != "one_hot" or table.meta["example_value"].ndim != 2:
            continue
        with graph.inserting_before(product):
            rows = graph.call_function(F.embedding, (hot.args[0], table))
        product.replace_all_uses_with(rows)
        for node in (product, floats, hot):
            if not node.users:
                graph.erase_node(node)


def all_that_looks_the_same_is_once(graph: fx.Graph) -> None:
    """What is computed twice from the same values is computed once. Written in a hurry: so is what is drawn twice, for
    two draws of random numbers of one shape look the same, too.
    """
    made: dict[Hashable, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or _writes(node):
            continue
        leaves, shape = tree_flatten((node.args, node.kwargs))
        looks = (node.target, str(shape), *((type(leaf), leaf) for leaf in leaves))
        first = made.setdefault(looks, node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _writes(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable
