"""Answers that are right, and those that are likely and wrong."""

from answers import judged_as

test_forwards = judged_as(
    (384, "right."),
    (192, "the forward's share"),
    (48, "for how many"),
    name="18.1",
)


def ordered(*order, swap=True):
    def answer(steps):
        found = [step for step in order if step in steps]
        if swap and {"TP", "SP"} & steps and {"AC", "compile"} <= steps:
            a, c = found.index("AC"), found.index("compile")
            found[a], found[c] = found[c], found[a]
        return found

    return answer


test_orders = judged_as(
    (ordered("TP", "SP", "AC", "compile", "FSDP2", "DDP"), "right."),
    (ordered("TP", "SP", "AC", "compile", "FSDP2", "DDP", swap=False), "2.13"),
    (ordered("TP", "SP", "compile", "AC", "FSDP2", "DDP", swap=False), "how often"),
    (ordered("AC", "TP", "SP", "compile", "FSDP2", "DDP"), "what slices"),
    (ordered("TP", "SP", "FSDP2", "DDP", "AC", "compile"), "what wraps"),
    (ordered("AC", "compile", "FSDP2"), "each step once"),
    name="18.2",
)


def with_gradient(called, model, x):
    model.zero_grad()
    leaf = x.clone().requires_grad_()
    called(leaf).sum().backward()
    named = {"input": leaf, **dict(model.named_parameters())}
    return {name for name, tensor in named.items() if tensor.grad is not None}


def without_the_input(model, compiled, x):
    return (with_gradient(model, model, x) - with_gradient(compiled, model, x)) - {"input"}


def without_a_look_at_eager(model, compiled, x):
    return {"input", *dict(model.named_parameters())} - with_gradient(compiled, model, x)


test_lost_gradients = judged_as(
    (lambda model, compiled, x: with_gradient(model, model, x) - with_gradient(compiled, model, x), "right."),
    (without_the_input, "the input's gradient is lost"),
    (without_a_look_at_eager, "nothing is lost"),
    (lambda model, compiled, x: set(), "the gate's gradient is lost"),
    name="18.3",
)


test_cost_of_the_cure = judged_as(
    (1120, "right."),
    (1280, "the first stage"),
    (2400, "all backwards"),
    (0, "which stages"),
    name="18.4",
)
