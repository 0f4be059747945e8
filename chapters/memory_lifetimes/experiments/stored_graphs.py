"""The joint graphs that live pages partition.

``python -m chapters.memory_lifetimes.experiments.stored_graphs`` writes them again. They are stored
beside the simulator, as numbers. A test says if torch or the model's lines have moved on since.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from compile_lab.simulator import joint_graphs

from ...shared import subjects
from ..stored import stored_graph

PATH = Path(joint_graphs.__file__).with_name(joint_graphs.STORED)


def chosen() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """Each stored graph's model, and inputs of the sizes that it is stored for."""
    tokens, rows = torch.zeros(8, 64, dtype=torch.int64), torch.zeros(2048, 64)
    return {
        "MiniGPT, one layer": (subjects.deep_gpt(1, 64, 4, 64), (tokens, tokens)),
        "MLP by hand": (subjects.ByHand(), (rows, rows)),
        "MiniGPT, four layers": (subjects.minigpt(), (tokens, tokens)),
    }


def stored() -> dict[str, Any]:
    """What is to be stored, as torch gives it today."""
    return {name: stored_graph(model, *inputs) for name, (model, inputs) in chosen().items()}


def text(graphs: dict[str, Any]) -> str:
    """As JSON, a node on each line, so that a change can be read."""
    parts = []
    for name, graph in graphs.items():
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in graph["nodes"])
        rest = json.dumps({key: value for key, value in graph.items() if key != "nodes"}, separators=(",", ":"))
        parts.append(f'{json.dumps(name)}:{rest[:-1]},"nodes":[\n{rows}]}}')
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    PATH.write_text(text(stored()), "utf-8")
