"""The exercises of chapter 24: what is wrong with an answer is said. Its solutions are checked by nbval."""

import torch
import torch.nn.functional as F
from answers import judged_as

ROOT = (2 / torch.pi) ** 0.5


def gelu_and_slope(x):
    s = torch.sigmoid(2 * ROOT * (x + 0.044715 * x**3))
    return x * s, s + x * s * (1 - s) * 2 * ROOT * (1 + 3 * 0.044715 * x**2)


def with_tanh(x):
    inner = ROOT * (x + 0.044715 * x**3)
    half = (1 + torch.tanh(inner)) / 2
    return x * half, half + x * half * (1 - half) * 2 * ROOT * (1 + 3 * 0.044715 * x**2)


def wrong_slope(x):
    value, slope = gelu_and_slope(x)
    return value, slope + 1e-6 * x


def by_autograd(hidden, table, targets, rows):
    leaves = hidden.clone().requires_grad_(), table.clone().requires_grad_()
    loss = F.cross_entropy(leaves[0] @ leaves[1].T, targets)
    return loss.detach(), *torch.autograd.grad(loss, leaves)


def by_chunks(hidden, table, targets, rows, kept=False):
    loss, to_hidden, to_table = 0.0, torch.empty_like(hidden), torch.zeros_like(table)
    for at in range(0, len(hidden), rows):
        logits = hidden[at : at + rows] @ table.T
        own = torch.arange(len(logits)), targets[at : at + rows]
        loss -= logits[own].sum()
        top = logits.amax(1, keepdim=True)
        total = logits.sub_(top).exp_().sum(1, keepdim=True)
        loss += (top + total.log()).sum()
        logits.div_(total)
        logits[own] -= 1
        logits.div_(len(hidden))
        to_hidden[at : at + rows] = logits @ table
        to_table.addmm_(logits.T, hidden[at : at + rows])
        if not kept:
            del logits
    return loss / len(hidden), to_hidden, to_table


def writes_into_it(hidden, table, targets, rows):
    found = by_chunks(hidden, table, targets, rows)
    hidden.zero_()
    return found


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("24.1", 43.98, "not for per cent"),
    ("24.1", 0.9, "how many does the step do in a second"),
    ("24.2", 16, "written back as well"),
    ("24.3", F.gelu, "two: the value and the derivative"),
    ("24.3", wrong_slope, "the derivative is up to 6e-06 off"),
    ("24.3", with_tanh, "it calls tanh"),
    ("24.4", by_autograd, "bytes at most, and one chunk of logits has"),
    ("24.4", lambda *given: by_chunks(*given, kept=True), "what is there twice"),
    ("24.4", lambda *given: by_chunks(*given)[0], "three things"),
    ("24.4", writes_into_it, "writes into what it is given"),
)
