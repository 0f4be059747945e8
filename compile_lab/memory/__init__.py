"""Which tensors live when, where is the peak, and what does the allocator say?

``lifetimes(graphs)`` predicts from AOTAutograd's graphs or Inductor's code, ``eager_lifetimes(step)`` watches an eager
step; ``measure_peak(step)`` and ``measure_step(forward)`` ask the allocator.
"""

from compile_lab.aot import TrainingGraphs
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
    "joint_lifetimes",
    "lifetimes",
    "measure_peak",
    "measure_step",
]


def lifetimes(graphs: TrainingGraphs) -> Lifetimes:
    """The lifetimes of every buffer of a training step: partitioned graphs, until the gradients are there."""
    return graph_lifetimes(graphs)
