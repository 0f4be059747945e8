#!/usr/bin/env bash
# Expected: torch 2.15's Inductor option numerics="strict" asks for eager's pointwise arithmetic and eager's order of
#   sums, so what is compiled on a CPU has eager's bits, or nearer to them than without.
# Happens: On a CPU "strict" gives exactly what emulate_precision_casts gives: bf16 is rounded where eager rounds, and
#   fp32 results are bit for bit those without the option, though they differ from eager's.
# Versions: torch==2.15.0, numpy==2.4.6
# Matters: A run that is asked to be strict, to be compared with eager to the bit, is not; nothing warns.
# Source: torch/_inductor/config.py, where the modes imply options for Triton, and casts.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.15.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 TORCHINDUCTOR_CACHE_DIR="$work/cache" "$work/venv/bin/python" - <<'PYTHON' 2> /dev/null
import torch


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def softmax(x):
    weights = torch.exp(x - x.amax(-1, keepdim=True))
    return weights / weights.sum(-1, keepdim=True)


def made(x, **options):
    torch.compiler.reset()
    return torch.compile(softmax, options=options)(x) if options else torch.compile(softmax)(x)


torch.manual_seed(0)
print("torch", torch.__version__)
for dtype in (torch.float32, torch.bfloat16):
    x = torch.randn(256, 128).to(dtype)
    eager, plain = softmax(x), made(x)
    strict, casts = made(x, numerics="strict"), made(x, emulate_precision_casts=True)
    shares = [f"{(each == eager).double().mean():.3f}" for each in (plain, strict, casts)]
    print(dtype, "as in eager: plain, strict, emulated casts", *shares, "strict is plain:", torch.equal(strict, plain))
    check(torch.equal(strict, casts), "strict is more than emulated casts")
    check(torch.equal(strict, plain) == (dtype == torch.float32), "strict moves fp32, or no longer moves bf16")
    check(not torch.equal(plain, eager), "what is compiled has eager's bits without any option")
PYTHON
