"""The exercises of chapter 08: what is wrong with an answer is said. Its solutions are checked by nbval."""

import torch
from answers import judged_as
from torch.utils.checkpoint import CheckpointPolicy


def keeps(*ops):
    def policy(context, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op in ops else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


def reseeds(fn, x):
    torch.manual_seed(0)
    first = fn(x)
    torch.manual_seed(0)
    return first, fn(x)


def goes_back(fn, x):
    state = torch.get_rng_state()
    first = fn(x)
    torch.set_rng_state(state)
    second = fn(x)
    torch.set_rng_state(state)
    return first, second


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("08.1", lambda n, b, a: 1, "for 36 blocks"),
    ("08.2", keeps(torch.ops.aten.addmm.default), "without a bias is computed twice"),
    ("08.2", lambda *args, **kwargs: CheckpointPolicy.MUST_SAVE, "keeps more than matmuls"),
    ("08.3", 5, "what is repeated is the rest"),
    ("08.3", 2, "does not fit"),
    ("08.3", 4, "repeat less"),
    ("08.4", reseeds, "not those of a single call"),
    ("08.4", goes_back, "not where a single call"),
    ("08.4", lambda fn, x: fn(x), "two results"),
)
