"""The exercises of chapter 07: what is wrong with an answer is said. Its solutions are checked by nbval."""

import torch
import torch.nn.functional as F
from answers import judged_as


def without_bias(x, weight, bias):
    return F.linear(x, weight) + bias.detach()


def adds(grad, dy, x):
    grad += dy.T @ x


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("07.1", lambda rows, d, size: 6 * rows * d * size, "return two numbers"),
    ("07.1", lambda rows, d, size: (6 * rows * d, 3 * rows * d), "elements, not bytes"),
    ("07.1", lambda rows, d, size: (4 * rows * d * size, 3 * rows * d * size), "do not move 4 matrices"),
    ("07.1", lambda rows, d, size: (6 * rows * d * size, 4 * rows * d * size), "does not move 4 matrices"),
    ("07.2", lambda total, matmuls, factor: total / (matmuls + (total - matmuls) / factor), "right."),
    ("07.4", lambda grad, dy, x: torch.addmm(grad, dy.T, x, out=grad), "right."),
    ("07.2", lambda backward, matmuls, factor: factor, "which take as long as before"),
    ("07.2", lambda backward, matmuls, factor: backward / (backward - matmuls / factor), "it says"),
    ("07.3", F.linear, "still sums over all rows"),
    ("07.3", lambda x, weight, bias: F.linear(x, weight), "not that of F.linear"),
    ("07.3", without_bias, "the gradient of bias is not"),
    ("07.4", adds, "2 operators that compute: mm, add_"),
    ("07.4", lambda grad, dy, x: torch.addmm(grad, dy.T, x), "changed in place"),
)
