#!/usr/bin/env bash
# Expected: dcp.save with HuggingFaceStorageWriter either stores a number beside the tensors, or refuses it, as
#   safetensors' own writer does.
# Happens: dcp.save succeeds. It writes the number as a torch.save archive in front of the safetensors header, so the
#   file is no safetensors file, and the index promises the number in it. Neither DCP's reader nor safetensors can
#   open the weights again.
# Versions: torch==2.13.0, numpy==2.4.6, safetensors==0.8.0
# Matters: One `step` beside the weights costs the whole checkpoint, and it shows on the day of loading. The default
#   writer stores the same state dict without trouble.
# Source: none found; read from the written bytes.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 safetensors==0.8.0
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import json

import safetensors
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def opens(folder):
    try:
        return list(safetensors.torch.load_file(f"{folder}/model-00001-of-00001.safetensors"))
    except safetensors.SafetensorError as error:
        return str(error)


weight = torch.arange(4.0)
for folder, state in (("tensors", {"weight": weight}), ("step", {"weight": weight, "step": 3})):
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(path=folder))
found = opens("tensors"), opens("step")
with open("step/model.safetensors.index.json") as file:
    index = json.load(file)["weight_map"]
with open("step/model-00001-of-00001.safetensors", "rb") as file:
    start = file.read(4)

print("torch", torch.__version__, "safetensors", safetensors.__version__)
print("tensors alone:", found[0])
print("with a step:", found[1], "| the file starts with", start, "| the index names", sorted(index))
check(found[0] == ["weight"], "tensors alone no longer open")
check(start == b"PK\x03\x04", "the file no longer starts with an archive")
check("header" in found[1], "the file with a number can now be opened")
check(sorted(index) == ["step", "weight"], "the index no longer names the number")
PYTHON
