#!/usr/bin/env bash
# Expected: Spellings of one sum or one lookup agree: index_add, scatter_add and segment_reduce forward, and the
#   gradients of table[ids], index_select, gather, an Embedding.
# Happens: In bfloat16 on a CPU scatter_add, scatter_reduce and the gradient of gather add up in float32 and give 1,000;
#   index_add, index_put, segment_reduce and the gradients of table[ids], index_select, Embedding and EmbeddingBag add up
#   in bfloat16 and stop at 256.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: A frequent token's or a popular node's sum is cut off or not by the spelling; rewriting a lookup as a
#   gather changes what is learned. The same functions agree in float32, so a test in float32 shows nothing.
# Source: pytorch#103427 gave the scatter functions their float32 sums, and no others.
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


ids, ones = torch.zeros(1000, dtype=torch.long), torch.ones(1000, dtype=torch.bfloat16)
zero = torch.zeros(1, dtype=torch.bfloat16)


def gradient(look_up):
    table = torch.zeros(1, dtype=torch.bfloat16, requires_grad=True)
    look_up(table).sum().backward()
    return table.grad


found = {
    "scatter_add": zero.scatter_add(0, ids, ones),
    "scatter_reduce": zero.scatter_reduce(0, ids, ones, "sum"),
    "gradient of gather": gradient(lambda table: table.gather(0, ids)),
    "index_add": zero.index_add(0, ids, ones),
    "index_put": zero.index_put((ids,), ones, accumulate=True),
    "segment_reduce": torch.segment_reduce(ones, "sum", lengths=torch.tensor([1000])),
    "gradient of table[ids]": gradient(lambda table: table[ids]),
    "gradient of index_select": gradient(lambda table: table.index_select(0, ids)),
    "gradient of embedding": gradient(lambda table: torch.nn.functional.embedding(ids, table[:, None])),
    "gradient of embedding_bag": gradient(
        lambda table: torch.nn.functional.embedding_bag(ids[None], table[:, None], mode="sum")
    ),
}
found = {name: value.item() for name, value in found.items()}
print("torch", torch.__version__, "| 1,000 ones, in bfloat16")
for name, value in found.items():
    print(f"{name:26}{value:g}")
values = list(found.values())
check(values[:3] == [1000] * 3, "scatter or gather no longer adds up in float32")
check(values[3:] == [256] * 7, "one of the others no longer stops at 256")
PYTHON
