#!/usr/bin/env bash
# Expected: Under torch.autocast a layer computes with its present weights, also if they changed inside the same region:
#   by a step, by load_state_dict, by copying averages in.
# Happens: The bfloat16 copy of a weight is kept until the region ends, and no change of the weight renews it. A training
#   loop inside one region trains against its first weights for ever; loaded weights are not used, in no_grad neither.
#   inference_mode, and a module compiled with aot_eager, use the new ones.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: A with-statement one line too far out stops learning without an error, while the weights move, the logged
#   gradient is finite and torch.compile makes it vanish.
# Source: pytorch#63552 and #65766 discuss the cache; the documentation has the region wrap forward and loss only,
#   for another reason.
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


def layer():
    linear = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(linear.weight)
    return linear


def after_loading(linear, call):
    with torch.autocast("cpu", torch.bfloat16):
        call(data)
        linear.load_state_dict({"weight": torch.full((1, 1), 5.0)})
        with torch.inference_mode():
            in_inference = call(data).item()
        return call(data).item(), in_inference


data, trained, loaded, other = torch.ones(1, 1), layer(), layer(), layer()
optimizer, outputs = torch.optim.SGD(trained.parameters(), lr=0.5), []
with torch.autocast("cpu", torch.bfloat16):
    for _ in range(4):
        optimizer.zero_grad()
        output = trained(data)
        output.sum().backward()
        optimizer.step()
        outputs.append(output.item())
eager, compiled = after_loading(loaded, loaded), after_loading(other, torch.compile(other, backend="aot_eager"))
print("torch", torch.__version__)
print("outputs of four training steps in one region:", outputs, "| the weight went to", trained.weight.item())
print("5 loaded inside: output", eager[0], "| in inference_mode", eager[1], "| compiled", compiled[0])
check(outputs == [1, 1, 1, 1] and trained.weight.item() == -1, "steps inside a region are now seen")
check(eager[0] == 1, "weights loaded inside a region are now seen")
check(eager[1] == compiled[0] == 5, "inference_mode or a compiled module no longer sees the loaded weights")
PYTHON
