"""What a GPT's training step must do at the least, and how long this GPU needs for it: by formula, rates measured."""

from collections.abc import Mapping
from typing import Any

Result = Mapping[str, Any]
Row = Mapping[str, Any]

BF16, FP32 = 2, 4
"""Bytes of a number."""
DATA_SHEET = 989.0
"""10¹² dense bf16 operations a second of an H100 or H200, as its maker states them: what MFU is counted of."""


def tokens(result: Result) -> int:
    """Tokens of a step."""
    return result["batch"] * result["length"]


def step_flops(result: Result, vocabulary: int) -> int:
    """Operations of a step's matmuls and causal attention, forward and backward; each multiply-add counts twice.

    A matrix of n weights costs 6 n operations a token: 2 forward, 4 backward. A causal mask leaves half of attention.
    """
    layers, dim, length = result["layers"], result["dim"], result["length"]
    weights = 12 * layers * dim**2 + vocabulary * dim
    return tokens(result) * 6 * (weights + layers * dim * length)


def utilisation(result: Result, row: Row, tflop_per_s: float) -> float:
    """The share of a rate (10¹² operations a second) that a rung's step reaches."""
    return step_flops(result, row["vocabulary"]) / (row["median_ms"] * 1e-3) / (tflop_per_s * 1e12)


def rate(result: Result, precision: str = "bf16", kind: str = "sustained") -> float:
    """10¹² operations a second of a large matmul, measured in the same run: "sustained" or, after a rest, "burst"."""
    found = [row for row in result["ceilings"]["matmul"] if row["precision"] == precision]
    return max(found, key=lambda row: row["n"])[f"{kind}_tflop_per_s"]["median"]


def copy_rate(result: Result) -> float:
    """Bytes a second, read and written together, of a large copy in the same run."""
    return max(result["ceilings"]["copy"], key=lambda row: row["nbytes"])["bytes_per_s"]["median"]


def parameters(result: Result, vocabulary: int) -> int:
    """Numbers that are trained: embeddings, and of each layer four matrices with biases and two norms."""
    layers, dim, length = result["layers"], result["dim"], result["length"]
    return (vocabulary + length) * dim + layers * (12 * dim**2 + 13 * dim) + 2 * dim


def limits(result: Result, vocabulary: int) -> dict[str, float]:
    """Milliseconds that each family of kernels needs at the least in bf16, by family.

    Matmuls and attention are limited by the sustained rate of the tensor cores; attention's backward computes the
    scores once more, so that it costs 2.5 times the forward. The others are limited by memory: each tensor is read and
    written once by one kernel that does all that there is to do with it. "other" reads the queries' gradients
    for their bias, and writes and reads the embedded rows.
    """
    batch, layers, dim, length = tokens(result), result["layers"], result["dim"], result["length"]
    flops, copied = rate(result) * 1e9, copy_rate(result) / 1e3
    row = batch * dim * BF16
    return {
        "matmuls": batch * 6 * (12 * layers * dim**2 + vocabulary * dim) / flops,
        "attention": 7 * batch * layers * dim * length / flops,
        "loss": 2 * batch * vocabulary * BF16 / copied,
        "GELU": 5 * 4 * row * layers / copied,
        "norms": 8 * row * (2 * layers + 1) / copied,
        "optimizer": parameters(result, vocabulary) * (6 * FP32 + 2 * BF16) / copied,
        "other": row * (layers + 2) / copied,
    }


def joules(row: Row) -> float:
    """Energy of a rung's step: the power that the driver reported, in the mean, times the median of its time."""
    if not row["power_w"]:
        raise ValueError("no power was reported in this recording")
    return sum(row["power_w"]) / len(row["power_w"]) * row["median_ms"] / 1e3
