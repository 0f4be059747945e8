#!/usr/bin/env bash
# Expected: Generation with the key-value cache gives the logits of the whole forward pass, within rounding, or an
#   option that the cache can't serve switches it off, as memory tokens and attn_selective do.
# Happens: With shift_tokens each new token gets zeros in place of its neighbour's channels, since the cache hands
#   over one token at a time; attn_data_dependent_alibi sums up the forget gates of the new token alone. can_cache_kv
#   is True all the same, and generate() uses the cache unless told not to: greedy decoding gives other tokens. Plain,
#   rotary and ALiBi decoders agree.
# Versions: torch==2.13.0, numpy==2.4.6, x-transformers==2.31.10, einops==0.8.2, einx==0.4.3
# Matters: A model with one of these options trains and evaluates well and generates badly, which looks like a model
#   that is not good yet; cache_kv=False gives it back.
# Source: lucidrains/x-transformers#219 and #311 were the same for other options and are fixed.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 x-transformers==2.31.10 einops==0.8.2 einx==0.4.3
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def model(**options):
    torch.manual_seed(0)
    layers = Decoder(dim=64, depth=2, heads=4, attn_dim_head=32, **options)
    made = TransformerWrapper(num_tokens=50, max_seq_len=64, attn_layers=layers).eval()
    for parameter in made.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return made


def cached(net, tokens):
    """The logits of one token after another, each with the cache of those before."""
    logits, cache = net(tokens[:, :1], return_intermediates=True)
    rows = [logits]
    for length in range(2, tokens.shape[1] + 1):
        logits, cache = net(tokens[:, :length], cache=cache, return_intermediates=True)
        rows.append(logits[:, -1:])
    return torch.cat(rows, 1)


print("torch", torch.__version__)
torch.manual_seed(1)
tokens = torch.randint(0, 50, (8, 12))
right = {"plain": {}, "rotary": {"rotary_pos_emb": True}, "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 4}}
wrong = {
    "shift_tokens": {"shift_tokens": 1},
    "attn_data_dependent_alibi": {"attn_data_dependent_alibi": True},
    "with a gate for each row": {"attn_data_dependent_alibi": True, "attn_data_dependent_alibi_per_row": True},
}
for name, options in (right | wrong).items():
    net = model(**options)
    with torch.no_grad():
        off = ((cached(net, tokens) - net(tokens)).norm() / net(tokens).norm()).item()
        generate = AutoregressiveWrapper(net).generate
        usual, whole = generate(tokens, 20, temperature=0.0), generate(tokens, 20, temperature=0.0, cache_kv=False)
    same = (usual == whole).float().mean().item()
    print(f"{name} | can_cache_kv {net.can_cache_kv} | logits off by {off:.4f} | equal greedy tokens {same:.2f}")
    check(net.can_cache_kv, f"{name} no longer says that it can be cached")
    check((off < 1e-4) == (name in right), f"{name}: the cache is now right, or wrong")
    check((same == 1) == (name in right), f"{name}: the greedy tokens are otherwise")
PYTHON
