#!/usr/bin/env bash
# Expected: Orbax stores a tree as it is: {'a.b': ..., 'a': {'b': ...}} has two leaves, and both come back. torch's
#   DCP refuses this tree, since its flat names collide.
# Happens: Orbax joins the levels with dots, too, and does not look for collisions. Both leaves are written to the
#   same array; one of them is lost, which one is left to chance, and both names restore the other's numbers without
#   an error.
# Versions: jax==0.10.2, jaxlib==0.10.2, orbax-checkpoint==0.12.8, numpy==2.4.6
# Matters: Trees that mix torch-style flat names with nested ones arise where converted weights ('layers.0') are
#   merged into a model's own tree ('layers': {'0': ...}). Shapes must agree for it to be silent, and in a stack of
#   equal blocks they do.
# Source: none found.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q jax==0.10.2 jaxlib==0.10.2 orbax-checkpoint==0.12.8 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import logging
import os

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


logging.disable(logging.WARNING)


def back(tree, name):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(os.path.abspath(name), tree)
        checkpointer.wait_until_finished()
        return checkpointer.restore(os.path.abspath(name))


apart = back({"a.b": jnp.ones(1), "c": {"d": jnp.zeros(1)}}, "apart")
found = back({"a.b": jnp.ones(1), "a": {"b": jnp.zeros(1)}}, "together")
values = float(found["a.b"][0]), float(found["a"]["b"][0])
print("jax", jax.__version__, "orbax-checkpoint", ocp.__version__)
print("saved a.b = 1 and a -> b = 0; loaded", values)
check(float(apart["a.b"][0]) == 1 and float(apart["c"]["d"][0]) == 0, "names that do not collide no longer come back")
check(values[0] == values[1], "both values now come back")
PYTHON
