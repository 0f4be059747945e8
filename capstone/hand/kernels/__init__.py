"""What the step does between the matmuls, as Triton kernels; ``reference`` has the same in plain torch.

Each function of this face takes and returns tensors, launches one kernel, and waits for nothing. Launch shapes (rows
of a tile, warps, stages) are those that were fastest of a few on an H200, at 32,768 rows of GPT-2's width.
"""

from triton import knobs

from .activation import gelu, gelu_backward
from .adamw import adamw_
from .embedding import embed, embed_backward_
from .fp8 import (
    add_norm_cast,
    cast,
    cast_parts,
    cross_entropy_cast,
    gelu_backward_cast,
    gelu_cast,
    scaled_product,
)
from .head import cross_entropy_
from .norm import add_norm, norm_backward
from .sums import column_sums, leave_sums, transpose

NORM_PARTS = 792
LINEAR_PARTS = 176
"""How many programs visit the rows, and so how many partial column sums they leave (multiples of 132 fill an H200)."""

INTERPRETED = knobs.runtime.interpret
"""Kernels run in Triton's interpreter, on the CPU (TRITON_INTERPRET=1 before triton is imported)."""
