#!/usr/bin/env bash
# Expected: torch.onnx.export gives each parameter its initializer, under its own name: what state_dict names can be
#   found and replaced in the file.
# Happens: Parameters of the same shape that hold the same numbers when exporting are merged, though they are not tied
#   in the model. Two fresh LayerNorms and two zero biases share one initializer each; the other names are gone.
# Versions: torch==2.13.0, numpy==2.4.6, onnx==1.23.2, onnxscript==0.7.2, onnxruntime==1.32.0
# Matters: Tools that put fine-tuned weights into an exported graph by name find some names missing, and what they
#   write under the kept name changes the other layers as well: here both norms. It shows only where numbers coincide,
#   so tests on trained weights pass.
# Source: onnxscript's pass that removes duplicate initializers; torch.onnx.export runs it by default (optimize=True).
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import onnx
import torch


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def names(model, **how):
    program = torch.onnx.export(model, (torch.ones(1, 4),), dynamo=True, verbose=False, **how)
    return sorted(weight.name for weight in program.model_proto.graph.initializer)


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)).eval()
merged = names(model)
with torch.no_grad():
    model[2].weight[0] += 1
    model[2].bias[0] += 1
apart = names(model)
print("torch", torch.__version__, "onnx", onnx.__version__)
print("parameters:                 ", sorted(model.state_dict()))
print("initializers, fresh norms:  ", merged)
print("initializers, changed norms:", apart)
check(set(model.state_dict()) - set(apart) == set(), "different weights no longer all keep their names")
check(set(model.state_dict()) - set(merged) == {"2.weight", "2.bias"}, "equal weights are no longer merged")
PYTHON
