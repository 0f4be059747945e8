"""An endpoint whose answer is arithmetic: what it generates is known."""

import torch.nn.functional as F

from compile_lab.inference.service import Endpoint, Request

WORDS = 7
USUAL, LONG = Request(1, 4, 3), Request(2, 6, 2)


def prefill(tokens, lengths):
    return F.one_hot((tokens.sum(1) + lengths) % WORDS, WORDS).float()


def decode(tokens, positions):
    return F.one_hot((tokens + positions) % WORDS, WORDS).float()


TOY = Endpoint(prefill, decode, WORDS, rows=2, slots=8)
