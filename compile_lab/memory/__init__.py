"""Which tensors live when, where is the peak, and what does the allocator say?

``lifetimes(graphs)`` predicts from AOTAutograd's graphs or Inductor's code, ``eager_lifetimes(step)`` watches an eager
step, and under ``fake_tensors()`` it takes no memory; ``measure_peak(step)`` and ``measure_step(forward)`` ask the
allocator, and under ``kernels_left_out()`` compiled code does no more than ask it.
"""

from .._torch.dispatcher import fake_tensors
from .._torch.inductor import kernels_left_out
from .eager import eager_lifetimes
from .ledger import KINDS, Lifetimes, Moment, Tensor
from .measured import Allocation, Peak, measure_peak, measure_step
from .predict import lifetimes

__all__ = [
    "KINDS",
    "Allocation",
    "Lifetimes",
    "Moment",
    "Peak",
    "Tensor",
    "eager_lifetimes",
    "fake_tensors",
    "kernels_left_out",
    "lifetimes",
    "measure_peak",
    "measure_step",
]
