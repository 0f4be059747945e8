"""check says what is wrong with an answer, and takes a right one. The notebook's own solutions are checked by nbval."""

from answers import judged_as


def filled(nbytes, cap):
    found, held = [[]], 0
    for at, size in enumerate(nbytes):
        if held >= cap:
            found.append([])
            held = 0
        found[-1].append(at)
        held += size
    return found


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("13.1", lambda compute, communication: 0, "which is too little"),
    ("13.2", lambda nbytes, cap: [*filled(nbytes, cap), []], "bucket 2 is another one in DDP"),
    ("13.2", lambda nbytes, cap: filled(nbytes, cap)[:1], "bucket 1 is another one in DDP"),
    ("13.2", lambda nbytes, cap: 3, "list of lists"),
    ("13.3", 1, "less than 1 of it is hidden"),
    ("13.3", 0.5, "more than 0.5 of it"),
    ("13.4", lambda order: order, "and can take less"),
    ("13.4", lambda order: order[1:], "nothing is added or left out"),
    ("13.4", lambda order: list(reversed(order)), "more than the gathers has moved"),
    ("13.4", lambda order: [t for t in order if t[:2] != "AG"] + [t for t in order if t[:2] == "AG"], "w0 waits"),
)
