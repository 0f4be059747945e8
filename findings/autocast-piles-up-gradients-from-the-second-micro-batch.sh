#!/usr/bin/env bash
# Expected: Micro-batches are alike: in the backward of each, the bf16 gradient of a weight is turned into float32 and
#   added to the weight's gradient as soon as its matmul's backward has run, so that one of them exists at a time.
# Happens: Inside one autocast region that is so for the first micro-batch only. Autocast casts each weight once and
#   keeps the copy; from the second micro-batch on these casts are the oldest operations of the graph, autograd runs its
#   newest first, and the bf16 gradients of all weights exist together at the end of the backward. With a region for
#   each micro-batch all are alike.
# Versions: torch==2.13.0
# Matters: A pipeline schedule runs all micro-batches in one call, so in one region: on GPUs a stage's peak is higher by
#   half its parameters' bytes, at a moment when all activations of the micro-batch are gone already. Gradient
#   accumulation in one region pays the same.
# Source: torch.autocast's documentation says that the backward should not run under it, for another reason.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
from contextlib import nullcontext

import torch

LAYERS = 6
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(8, 8, bias=False) for _ in range(LAYERS)])
of_weights = {id(weight) for weight in model.parameters()}


def most_waiting(loss):
    """The most gradients of bf16 copies of weights that wait for their cast at one time in the backward."""
    waiting, most, seen, todo = set(), 0, set(), [loss.grad_fn]

    def made(at):
        def hook(_, __):
            nonlocal most
            waiting.add(at)
            most = max(most, len(waiting))

        return hook

    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for after, _ in node.next_functions:
            todo.append(after)
            casts_a_weight = after and any(
                id(getattr(leaf, "variable", None)) in of_weights for leaf, _ in after.next_functions
            )
            if casts_a_weight and after.name() == "ToCopyBackward0" and after not in seen:
                at = id(after)
                if "Mm" in node.name() or node.name() == "TBackward0":
                    node.register_hook(made(at))
                after.register_hook(lambda _, __, at=at: waiting.discard(at))
    loss.backward()
    return most


def autocast():
    return torch.autocast("cpu", torch.bfloat16)


def of_three(around, within):
    with around():
        found = []
        for _ in range(3):
            with within():
                loss = model(torch.randn(4, 8)).float().sum()
            found.append(most_waiting(loss))
    return found


one, each = of_three(autocast, nullcontext), of_three(nullcontext, autocast)
print("torch", torch.__version__, "weights:", LAYERS)
print("one region for all micro-batches:", one)
print("a region for each:               ", each)
if not (one[0] == 1 and one[1:] == [LAYERS, LAYERS]):
    raise SystemExit("changed: in one region the gradients of later micro-batches no longer pile up")
if each != [1, 1, 1]:
    raise SystemExit("changed: with a region for each micro-batch they are no longer alike")
PYTHON
