"""Answers that are likely and wrong. The notebook's own starters and solutions are checked by nbval."""

from answers import judged_as


def ordered(*order, swap=True):
    def answer(steps):
        found = [step for step in order if step in steps]
        if swap and {"TP", "SP"} & steps and {"AC", "compile"} <= steps:
            a, c = found.index("AC"), found.index("compile")
            found[a], found[c] = found[c], found[a]
        return found

    return answer


def without_the_input(model, compiled, x):
    def with_gradient(called):
        model.zero_grad()
        called(x).sum().backward()
        return {name for name, parameter in model.named_parameters() if parameter.grad is not None}

    return with_gradient(model) - with_gradient(compiled)


test_a_wrong_answer_is_told_why = judged_as(
    ("18.1", 192, "the forward's share"),
    ("18.1", 48, "for how many"),
    ("18.2", ordered("TP", "SP", "AC", "compile", "FSDP2", "DDP", swap=False), "2.13"),
    ("18.2", ordered("TP", "SP", "compile", "AC", "FSDP2", "DDP", swap=False), "how often"),
    ("18.2", ordered("AC", "TP", "SP", "compile", "FSDP2", "DDP"), "what slices"),
    ("18.2", ordered("TP", "SP", "FSDP2", "DDP", "AC", "compile"), "what wraps"),
    ("18.3", without_the_input, "the input's gradient is lost"),
    ("18.3", lambda model, compiled, x: set(), "the gate's gradient is lost"),
    ("18.4", 1280, "the first stage"),
    ("18.4", 2400, "all backwards"),
    ("18.4", 0, "which stages"),
)
