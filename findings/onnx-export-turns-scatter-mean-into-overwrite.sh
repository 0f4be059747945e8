#!/usr/bin/env bash
# Expected: torch.onnx.export translates scatter_reduce with reduce='mean', or refuses it: ONNX's ScatterElements
#   knows add, mul, max and min, and no mean.
# Happens: It writes ScatterElements with reduction none: the last element that lands in a place overwrites the
#   others. Export, the checker and ONNX Runtime accept it. sum and amax are right.
# Versions: torch==2.13.0, numpy==2.4.6, onnx==1.23.2, onnxscript==0.7.2, onnxruntime==1.32.0
# Matters: Mean aggregation is the default of graph networks and of token pooling. The exported model runs, has the
#   right shapes, and averages nothing.
# Source: onnxscript#582 (the table that maps mean to none); onnx#5100 asks for the missing mode.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import io

import onnxruntime
import torch


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


class Scatter(torch.nn.Module):
    def __init__(self, reduce):
        super().__init__()
        self.reduce = reduce

    def forward(self, values, places):
        return torch.zeros(2).scatter_reduce(0, places, values, self.reduce, include_self=False)


def exported(model, inputs):
    file = io.BytesIO()
    torch.onnx.export(model, inputs, dynamo=True, verbose=False).save(file)
    session = onnxruntime.InferenceSession(file.getvalue())
    names = [given.name for given in session.get_inputs()]
    return session.run(None, dict(zip(names, (tensor.numpy() for tensor in inputs))))[0].tolist()


inputs = torch.tensor([1.0, 2.0, 3.0, -4.0]), torch.tensor([0, 0, 1, 1])
models = {reduce: Scatter(reduce).eval() for reduce in ("sum", "amax", "mean")}
found = {reduce: (model(*inputs).tolist(), exported(model, inputs)) for reduce, model in models.items()}
print("torch", torch.__version__, "onnxruntime", onnxruntime.__version__)
for reduce, (eager, runtime) in found.items():
    print(f"{reduce}: torch {eager}, exported {runtime}")
check(found["sum"][0] == found["sum"][1], "sum is no longer right")
check(found["amax"][0] == found["amax"][1], "amax is no longer right")
check(found["mean"] == ([1.5, -0.5], [2.0, -4.0]), "mean is no longer exported as an overwrite")
PYTHON
