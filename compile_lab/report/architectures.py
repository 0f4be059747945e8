"""Fifty common architectures, small, with random weights: what a report has to cope with.

The list was chosen before the first of them was tried. Each is a class of transformers or a model of timm with its
default flags, two layers or stages, and a batch of two to four; the loss is the model's own where it has one, else the
mean of its result. ``made(name)`` builds one; nothing is downloaded.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..doors import door

VOCABULARY, ROWS, LENGTH, SIDE = 1000, 2, 64, 64
SMALL = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "vocab_size": VOCABULARY,
}
"""Sizes under the names that transformers' configurations share; each class maps them to its own."""
IMAGE = {"image_size": SIDE, "patch_size": 16}


@dataclass(frozen=True)
class Architecture:
    """One of the fifty: ``library`` is "transformers" or "timm", ``kind`` its task, ``source`` the class or the model's
    name there, ``sizes`` what is smaller than usual."""

    name: str
    library: str
    kind: str
    source: str
    sizes: dict[str, Any] = field(default_factory=dict, repr=False)


def _causal(name: str, source: str, **sizes: Any) -> Architecture:
    return Architecture(name, "transformers", "causal", source, {**SMALL, **sizes})


def _masked(name: str, source: str, **sizes: Any) -> Architecture:
    return Architecture(name, "transformers", "masked", source, {**SMALL, **sizes})


def _other(name: str, kind: str, source: str, **sizes: Any) -> Architecture:
    return Architecture(name, "transformers", kind, source, sizes)


def _timm(name: str, source: str) -> Architecture:
    return Architecture(name, "timm", "image", source)


ROTARY = {"num_key_value_heads": 2, "head_dim": 32, "pad_token_id": 0}
"""What decoders with grouped queries want besides."""
SPEECH = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
TOWER = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
ENCODER_DECODER = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
}

ARCHITECTURES: dict[str, Architecture] = {
    each.name: each
    for each in (
        # decoders
        _causal("GPT-2", "GPT2"),
        _causal("GPT-Neo", "GPTNeo", attention_types=[[["global", "local"], 1]]),
        _causal("GPT-NeoX", "GPTNeoX"),
        _causal("GPT-J", "GPTJ", rotary_dim=16),
        _causal("OPT", "OPT", ffn_dim=256, word_embed_proj_dim=128),
        _causal("BLOOM", "Bloom"),
        _causal("Falcon", "Falcon"),
        _causal("Llama", "Llama", **ROTARY),
        _causal("Mistral", "Mistral", **ROTARY),
        _causal("Mixtral", "Mixtral", num_local_experts=4, **ROTARY),
        _causal("Qwen2", "Qwen2", **ROTARY),
        _causal("Qwen3", "Qwen3", **ROTARY),
        _causal("Gemma 2", "Gemma2", **ROTARY),
        _causal("Gemma 3", "Gemma3Text", **ROTARY),
        _causal("Phi", "Phi"),
        _causal("Phi-3", "Phi3", pad_token_id=0),
        _causal("OLMo 2", "Olmo2", **ROTARY),
        _causal("StableLM", "StableLm", num_key_value_heads=4),
        _causal("SmolLM3", "SmolLM3", **ROTARY),
        _causal("Mamba", "Mamba", state_size=8),
        # encoders
        _masked("BERT", "Bert"),
        _masked("RoBERTa", "Roberta", max_position_embeddings=LENGTH + 2),
        _masked("DistilBERT", "DistilBert", hidden_dim=256),
        _masked("ALBERT", "Albert", embedding_size=64),
        _masked("ELECTRA", "Electra", embedding_size=64),
        _masked("DeBERTa-v2", "DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"]),
        _masked("MPNet", "MPNet"),
        _masked("ModernBERT", "ModernBert", pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1),
        # an encoder and a decoder
        _other(
            "T5",
            "pair",
            "T5",
            d_model=64,
            d_kv=16,
            d_ff=128,
            num_layers=2,
            num_heads=4,
            vocab_size=VOCABULARY,
            decoder_start_token_id=0,
        ),
        _other("BART", "pair", "Bart", vocab_size=VOCABULARY, **ENCODER_DECODER),
        _other(
            "Whisper",
            "speech to text",
            "Whisper",
            vocab_size=VOCABULARY,
            num_mel_bins=16,
            max_source_positions=64,
            pad_token_id=0,
            decoder_start_token_id=1,
            **ENCODER_DECODER,
        ),
        # pictures and sound
        _other("ViT", "image", "ViT", **TOWER, **IMAGE),
        _other("BEiT", "image", "Beit", **TOWER, **IMAGE),
        _other("DINOv2", "image", "Dinov2", **TOWER, image_size=SIDE, patch_size=16),
        _other("Swin", "image", "Swin", image_size=SIDE, embed_dim=32, depths=[1, 1], num_heads=[2, 4], window_size=4),
        _other("ConvNeXt", "image", "ConvNext", hidden_sizes=[32, 64], depths=[1, 1], num_stages=2),
        _other(
            "ResNet-18", "image", "ResNet", layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512]
        ),
        _other(
            "wav2vec 2.0",
            "sound",
            "Wav2Vec2",
            **SPEECH,
            conv_dim=[32, 32],
            conv_kernel=[10, 8],
            conv_stride=[5, 4],
            num_feat_extract_layers=2,
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
        ),
        _other(
            "CLIP",
            "picture and text",
            "CLIP",
            text_config={**TOWER, "vocab_size": VOCABULARY, "eos_token_id": 2},
            vision_config={**TOWER, **IMAGE},
            projection_dim=32,
        ),
        _timm("ResNet-26d (timm)", "resnet26d"),
        _timm("EfficientNet-B0", "efficientnet_b0"),
        _timm("MobileNetV3", "mobilenetv3_small_100"),
        _timm("RegNetY", "regnety_002"),
        _timm("DenseNet-121", "densenet121"),
        _timm("ConvNeXt (timm)", "convnext_atto"),
        _timm("ViT (timm)", "vit_tiny_patch16_224"),
        _timm("DeiT III", "deit3_small_patch16_224"),
        _timm("MLP-Mixer", "mixer_s32_224"),
        _timm("EVA-02", "eva02_tiny_patch14_224"),
        _timm("Swin V2", "swinv2_cr_tiny_ns_224"),
    )
}

AUTO = {
    "causal": "AutoModelForCausalLM",
    "masked": "AutoModelForMaskedLM",
    "pair": "AutoModelForSeq2SeqLM",
    "speech to text": "AutoModelForSpeechSeq2Seq",
    "image": "AutoModelForImageClassification",
    "sound": "AutoModelForAudioClassification",
    "picture and text": "AutoModel",
}
"""The class of transformers that gives a task its head and its loss."""


@door
def made(name: str) -> tuple[nn.Module, dict[str, Tensor] | tuple[Tensor, ...]]:
    """The architecture ``name`` in training mode, and a batch of it: what ``report`` takes.

    KeyError for a name that is not among the fifty; ModuleNotFoundError names the library that is missing.

    A name that is none of the fifty is refused:

    >>> from compile_lab.report.architectures import made
    >>> made("Llama 9")
    Traceback (most recent call last):
        ...
    KeyError: "'Llama 9' is none of the fifty; they are GPT-2, GPT-Neo, ..."
    """
    if name not in ARCHITECTURES:
        raise KeyError(f"{name!r} is none of the fifty; they are {', '.join(ARCHITECTURES)}")
    one = ARCHITECTURES[name]
    torch.manual_seed(0)
    return _of_timm(one) if one.library == "timm" else _of_transformers(one)


def _of_transformers(one: Architecture) -> tuple[nn.Module, dict[str, Tensor]]:
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    config = getattr(transformers, f"{one.source}Config")(**one.sizes)
    model = getattr(transformers, AUTO[one.kind]).from_config(config)
    return model.train(), BATCHES[one.kind](config)


def _of_timm(one: Architecture) -> tuple[nn.Module, tuple[Tensor, ...]]:
    timm = importlib.import_module("timm")
    sized = {"img_size": 224} if "swin" in one.source else {}
    model = timm.create_model(one.source, num_classes=10, **sized)
    side = model.default_cfg["input_size"][-1]
    return model.train(), (torch.randn(ROWS, 3, side, side),)


def _words(*shape: int) -> Tensor:
    return torch.randint(3, VOCABULARY, shape or (ROWS, LENGTH))


def _language(config: Any) -> dict[str, Tensor]:
    tokens = _words()
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}


def _pixels(config: Any) -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(ROWS, 3, SIDE, SIDE), "labels": torch.randint(0, config.num_labels, (ROWS,))}


def _both(config: Any) -> dict[str, Any]:
    pixels = torch.randn(ROWS, 3, SIDE, SIDE)
    return {"input_ids": _words(ROWS, 16), "pixel_values": pixels, "return_loss": True}


BATCHES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "causal": _language,
    "masked": _language,
    "pair": _language,
    "speech to text": lambda config: {
        "input_features": torch.randn(ROWS, config.num_mel_bins, 2 * config.max_source_positions),
        "labels": _words(ROWS, 16),
    },
    "image": _pixels,
    "sound": lambda config: {
        "input_values": torch.randn(ROWS, 4000),
        "labels": torch.randint(0, config.num_labels, (ROWS,)),
    },
    "picture and text": _both,
}
