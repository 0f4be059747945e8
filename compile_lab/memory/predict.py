"""The lifetimes of a training step, from whatever there is of it: graphs or generated code."""

from ..aot.training import TrainingGraphs
from ..doors import door
from ..inductor.generated import GeneratedCode
from .compiled import compiled_lifetimes
from .graphs import graph_lifetimes
from .ledger import Lifetimes


@door
def lifetimes(graphs: TrainingGraphs | GeneratedCode) -> Lifetimes:
    """The lifetimes of every buffer of one step, from the forward's first operation until the gradients are there.

    ``graphs``: AOTAutograd's, as one of its partitioners split them (``aot.training_graphs``), or the code that
    Inductor wrote (``inductor.generated_code``), for this machine or for a chip that is not here. Nothing is run.

    Raises ValueError where a function broke into several graphs.

    >>> import torch
    >>> from compile_lab import aot, memory
    >>> graphs = aot.training_graphs(torch.nn.GELU(), torch.ones(1000, requires_grad=True))
    >>> memory.lifetimes(graphs).held_nbytes, memory.lifetimes(graphs).peak_nbytes
    (4000, 20000)
    """
    return graph_lifetimes(graphs) if isinstance(graphs, TrainingGraphs) else compiled_lifetimes(graphs)
