#!/usr/bin/env bash
# Expected: jnp.from_dlpack(tensor) is the zero-copy way from torch to jax: on the same device it never copies, unless
#   the device changes.
# Happens: On a CPU it shares the memory when the first element lies on a 64-byte boundary, and else copies without a
#   word. from_dlpack(x) is x's memory, from_dlpack(x[1:]) is a copy, from_dlpack(x[16:]) is shared again. copy=False
#   raises where the default copies.
# Versions: torch==2.13.0, numpy==2.4.6, jax==0.10.2, jaxlib==0.10.2
# Matters: A batch cut out of a large buffer by from_dlpack doubles the memory or does not, and holds later data or
#   does not, depending on the offset; the test on the whole buffer shows neither.
# Source: jax's docstring of from_dlpack: with copy=None a copy may be made if needed for a device transfer. The
#   reason stands only in the error for copy=False.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 jax==0.10.2 jaxlib==0.10.2
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import jax
import jax.numpy as jnp
import torch


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def shared(offset):
    buffer = torch.arange(64.0)
    check(buffer.data_ptr() % 64 == 0, "torch's buffers no longer begin on a 64-byte boundary")
    part = buffer[offset : offset + 16]
    return jnp.from_dlpack(part).unsafe_buffer_pointer() == part.data_ptr()


def refused(offset):
    try:
        jnp.from_dlpack(torch.arange(64.0)[offset : offset + 16], copy=False)
    except ValueError as error:
        return "64 bytes" in str(error)
    return False


found = {offset: shared(offset) for offset in (0, 1, 4, 8, 15, 16, 32)}
print("torch", torch.__version__, "jax", jax.__version__)
print("is the jax array the tensor's memory, by the slice's offset:", found)
check(found[0] and found[16] and found[32], "aligned slices are no longer shared")
check(not (found[1] or found[4] or found[8] or found[15]), "other slices are now shared, too")
check(refused(1) and not refused(16), "copy=False no longer refuses exactly the slices that would be copied")
PYTHON
