"""The exercises of chapter 12: what is wrong with an answer is said. Its solutions are checked by nbval."""

from answers import judged_as


def gpipe(rank, ranks, microbatches):
    return [(kind, rank, m) for kind in "FB" for m in range(microbatches)]


def one_at_a_time(rank, ranks, microbatches):
    """Each micro-batch through all stages and back before the next one."""
    return [(kind, rank, m) for m in range(microbatches) for kind in "FB"]


def backward_first(rank, ranks, microbatches):
    return [("B", rank, m) for m in range(microbatches)] + [("F", rank, m) for m in range(microbatches)]


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("12.1", lambda p, m, f, b: 0.0, "too little"),
    ("12.1", lambda p, m, f, b: None, "returns a NoneType"),
    ("12.2", lambda ranks, most: 1, "is above"),
    ("12.2", lambda ranks, most: 2.5, "asks for a whole number"),
    ("12.3", one_at_a_time, "; GPipe takes"),
    ("12.3", backward_first, "no schedule: B of stage 0 for micro-batch 0 comes before its own F"),
    (
        "12.3",
        lambda rank, ranks, m: gpipe(rank, ranks, 1),
        "given 6 micro-batches on 2 ranks, it runs 1 through 2",
    ),
    ("12.4", [6, 4, 4, 2], "stage 0 takes as long as 6 layers"),
    ("12.4", [4, 4, 4], "it has 12 layers on 3 stages"),
    ("12.4", 5, "a list of whole numbers"),
    ("12.5", lambda before, after, more: 1.0, "take 0 % longer it says 1.000, which is too much"),
)
