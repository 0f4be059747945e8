"""A pass of Inductor's that somebody could have written wrong."""

import torch


def negated(graph):
    """Turns the sign of every gradient."""
    if any("tangents" in node.name for node in graph.nodes if node.op == "placeholder"):
        output = next(node for node in graph.nodes if node.op == "output")
        with graph.inserting_before(output):
            turned = [each and graph.call_function(torch.ops.aten.neg.default, (each,)) for each in output.args[0]]
        output.args = (tuple(turned),)
