#!/usr/bin/env bash
# Expected: An optimizer made from named_parameters() saves the parameters' names, so load_state_dict gives each
#   parameter the state of its name, or refuses another order.
# Happens: It goes by position, as ever. If the order differs (a module moved in the constructor, groups split
#   otherwise) and the shapes agree, parameters get each other's moments; and the optimizer's own list of names is
#   overwritten by the file's, so that it now names the wrong parameters.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: Transformer blocks have the same shapes, so nothing raises. A look at param_names afterwards, made to rule
#   this out, confirms the wrong order.
# Source: the note in the documentation of torch.optim.Optimizer.load_state_dict says that names do not affect loading
#   and that the loaded ones replace the current ones.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import torch


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False))
saved = torch.optim.AdamW(model.named_parameters())
model(torch.randn(8, 4)).square().sum().backward()
saved.step()

other = torch.optim.AdamW(reversed(list(model.named_parameters())))
own = list(other.param_groups[0]["param_names"])
other.load_state_dict(saved.state_dict())

first, second = model[0].weight, model[1].weight
after = other.param_groups[0]["param_names"]
print("torch", torch.__version__)
print("names before and after loading:", own, after)
print("the optimizer's first parameter is 1.weight:", other.param_groups[0]["params"][0] is second)
check(own == ["1.weight", "0.weight"], "the names no longer follow the given order")
check(after == ["0.weight", "1.weight"], "the names are no longer overwritten")
check(other.param_groups[0]["params"][0] is second, "the parameters' own order is no longer kept")
check(torch.equal(other.state[second]["exp_avg"], saved.state[first]["exp_avg"]), "state no longer goes by position")
check(not torch.equal(other.state[first]["exp_avg"], saved.state[first]["exp_avg"]), "state now goes by name")
PYTHON
