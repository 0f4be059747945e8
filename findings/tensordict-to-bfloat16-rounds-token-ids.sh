#!/usr/bin/env bash
# Expected: TensorDict.to(torch.bfloat16) casts as nn.Module.to does: floating-point entries only.
# Happens: It casts everything, integers and booleans too. The token 50257 becomes 50176, the mask becomes ones and
#   zeros of bfloat16.
# Versions: torch==2.13.0, numpy==2.4.6, tensordict==0.15.3
# Matters: A batch of tokens, masks and features is cast with one call before the forward. Embedding lookups would
#   complain about the type, but whatever casts back with .long(), hashes, or compares labels works on other tokens.
# Source: the docstring of TensorDict.to says that integer and boolean leaves are cast, too, and names cast_filter;
#   nn.Module.to casts floating point only.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 tensordict==0.15.3
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import tensordict
import torch
from tensordict import TensorDict


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


batch = TensorDict({"tokens": torch.tensor([50257, 50001]), "mask": torch.tensor([True, False]), "x": torch.ones(2)}, [2])
cast = batch.to(torch.bfloat16)

module = torch.nn.Module()
module.register_buffer("tokens", batch["tokens"].clone())
module.to(torch.bfloat16)

print("torch", torch.__version__, "tensordict", tensordict.__version__)
print("tokens before and after:", batch["tokens"].tolist(), cast["tokens"].long().tolist(), cast["tokens"].dtype)
print("a module's buffer after the same call:", module.tokens.tolist(), module.tokens.dtype)
check(module.tokens.dtype == torch.int64, "nn.Module.to now casts integers, too")
check(cast["mask"].dtype == torch.bfloat16, "the mask is no longer cast")
check(cast["tokens"].dtype == torch.bfloat16, "the tokens are no longer cast")
check(cast["tokens"].long().tolist() == [50176, 49920], "the tokens are no longer rounded")
PYTHON
