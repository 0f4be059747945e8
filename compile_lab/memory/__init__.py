"""Which tensors live when, where is the peak, and what does the allocator say?

``lifetimes(graphs)`` predicts from AOTAutograd's graphs or Inductor's code, ``eager_lifetimes(step)`` watches an eager
step, and under ``fake_tensors()`` it takes no memory; ``measure_peak(step)`` and ``measure_step(forward)`` ask the
allocator.
"""

from compile_lab._torch import fake_tensors
from compile_lab.aot import TrainingGraphs
from compile_lab.inductor import GeneratedCode
from compile_lab.memory.compiled import compiled_lifetimes
from compile_lab.memory.differences import Difference, differences
from compile_lab.memory.eager import eager_lifetimes
from compile_lab.memory.graphs import graph_lifetimes, joint_lifetimes
from compile_lab.memory.lifetimes import KINDS, Lifetimes, Moment, Tensor
from compile_lab.memory.measured import Allocation, Peak, measure_peak, measure_step

__all__ = [
    "KINDS",
    "Allocation",
    "Difference",
    "Lifetimes",
    "Moment",
    "Peak",
    "Tensor",
    "differences",
    "eager_lifetimes",
    "fake_tensors",
    "joint_lifetimes",
    "lifetimes",
    "measure_peak",
    "measure_step",
]


def lifetimes(graphs: TrainingGraphs | GeneratedCode) -> Lifetimes:
    """The lifetimes of every buffer of one step, from the forward's first operation until the gradients are there.

    ``graphs``: AOTAutograd's, as one of its partitioners split them (``aot.training_graphs``), or the code that
    Inductor wrote (``inductor.generated_code``), for this machine or for a chip that is not here. Nothing is run.

    Raises TypeError for anything else, ValueError where a function broke into several graphs.
    """
    if isinstance(graphs, TrainingGraphs):
        return graph_lifetimes(graphs)
    if isinstance(graphs, GeneratedCode):
        return compiled_lifetimes(graphs)
    raise TypeError(
        f"lifetimes are told of aot.training_graphs(…) or inductor.generated_code(…), not of {type(graphs).__name__}; "
        "of an eager step, eager_lifetimes(step) tells them"
    )
