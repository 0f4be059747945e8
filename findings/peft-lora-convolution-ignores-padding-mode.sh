#!/usr/bin/env bash
# Expected: A LoRA beside a convolution looks at the same pixels as the convolution: the same padding mode, the same
#   dilation. Merging it changes nothing.
# Happens: The adapter's first convolution takes over kernel, stride and padding only. Beside circular, reflecting or
#   replicating padding it pads with zeros, and beside a dilated layer with padding="same" it is not dilated at all.
#   The merged weights use the layer's own, and give other outputs: at the border, or with dilation everywhere. LoHa
#   and LoKr ignore the padding mode likewise. (With a number as padding, dilation raises.)
# Versions: torch==2.13.0, numpy==2.4.6, peft==0.21.2, transformers==5.23.0, accelerate==1.15.0, safetensors==0.8.0
# Matters: The model that is evaluated during fine-tuning and the merged one that is shipped differ, by as much as the
#   adapter changes; tiling textures, panoramas and speech models have such layers. The plain convolution, where one
#   would test merging, agrees to the last bits.
# Source: huggingface/peft#3697; the fix, #3758, was in no release when this was written.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 peft==0.21.2 transformers==5.23.0 accelerate==1.15.0 \
  safetensors==0.8.0
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import peft
import torch
from torch import nn


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def difference(config, **more):
    """Merged minus unmerged output: the largest at the border and inside, over the largest change by the adapter."""
    torch.manual_seed(0)
    layer, images = nn.Conv2d(8, 8, 3, **more), torch.randn(2, 8, 12, 12)
    with torch.no_grad():
        plain = layer(images)
        model = peft.get_peft_model(nn.Sequential(layer), config).eval()
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter))
        before = model(images)
        model.merge_adapter()
        gap = (model(images) - before).abs() / (before - plain).abs().max()
    return gap.max().item(), gap[..., 1:-1, 1:-1].max().item()


configs = {
    "LoRA": lambda: peft.LoraConfig(r=4, target_modules=["0"]),
    "LoHa": lambda: peft.LoHaConfig(r=4, target_modules=["0"]),
    "LoKr": lambda: peft.LoKrConfig(r=4, target_modules=["0"]),
}
layers = {
    "zeros": {"padding": 1},
    "circular": {"padding": 1, "padding_mode": "circular"},
    "reflect": {"padding": 1, "padding_mode": "reflect"},
    "same, dilation 2": {"padding": "same", "dilation": 2},
}
print("torch", torch.__version__, "| peft", peft.__version__)
for method, config in configs.items():
    for name, more in layers.items():
        anywhere, inside = difference(config(), **more)
        print(f"{method} | {name} | merged differs by {anywhere:.3f} of the adapter's change, inside by {inside:.3f}")
        wrong = name in ("circular", "reflect") or (method == "LoRA" and "dilation" in name)
        check((anywhere > 0.1) == wrong, f"{method}, {name}: merging is now right, or wrong")
        check((inside > 0.1) == (wrong and "dilation" in name), f"{method}, {name}: the inside is otherwise")
PYTHON
