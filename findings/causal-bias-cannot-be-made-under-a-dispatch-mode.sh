#!/usr/bin/env bash
# Expected: torch.nn.attention.bias.causal_lower_right(q, k), the documented mask for a causal window that ends with the
#   keys, can be made wherever a tensor can: in a model's forward, under a counter of operations, in compiled code.
# Happens: Under any TorchDispatchMode, such as FlopCounterMode, making one raises "Creating a new Tensor subclass
#   CausalBias but the raw Tensor object is already associated to a python object"; in a compiled function Dynamo refuses
#   its constructor (with fullgraph=True an error, else a graph break at each). Made outside, it is taken in all of them.
# Versions: torch==2.13.0, numpy==2.4.6; torch 2.11.0 and 2.15.0 do the same
# Matters: The tutorial makes the mask next to the call. Whoever does so in forward (attention to a cache, a piece of a
#   sequence in context parallel) cannot count the model's operations or memory by a mode, nor compile it whole.
# Source: seen while the book's context parallel was written; no report found.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

cat > bias.py <<'PYTHON'
import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


class Nothing(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def inside(query, key):
    return F.scaled_dot_product_attention(query, key, key, attn_mask=causal_lower_right(4, 8))


def raised(work):
    try:
        work()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""


torch.manual_seed(0)
query, key, made = torch.randn(1, 2, 4, 8), torch.randn(1, 2, 8, 8), causal_lower_right(4, 8)
plain = inside(query, key)
allowed = torch.ones(4, 8, dtype=torch.bool).tril(4)
check(torch.allclose(plain, F.scaled_dot_product_attention(query, key, key, attn_mask=allowed)), "the mask's meaning")
print("torch", torch.__version__)
for mode in (Nothing(), FlopCounterMode(display=False)):
    with mode:
        said = raised(lambda: inside(query, key))
        outside = F.scaled_dot_product_attention(query, key, key, attn_mask=made)
    print(f"{type(mode).__name__}: made inside: {said[:96]} | made outside: taken")
    check("Creating a new Tensor subclass CausalBias" in said, f"{type(mode).__name__} lets it be made")
    check(torch.equal(outside, plain), f"{type(mode).__name__} takes the one from outside, with another result")
said = raised(lambda: torch.compile(inside, backend="eager", fullgraph=True)(query, key))
print("compiled, made inside:", said)
check(said.startswith("Unsupported"), "compiled code makes one")
outside = torch.compile(
    lambda query, key: F.scaled_dot_product_attention(query, key, key, attn_mask=made), backend="eager", fullgraph=True
)
check(torch.equal(outside(query, key), plain), "compiled code no longer takes the one from outside")
print("compiled, made outside: taken")
PYTHON
"$work/venv/bin/python" bias.py
