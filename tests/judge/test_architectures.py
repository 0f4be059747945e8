"""No false alarm over architectures that nobody here wrote."""

import importlib.util

import pytest
import torch

from compile_lab.judge import gradients
from compile_lab.report.architectures import ARCHITECTURES, made

SAMPLE = ("DistilBERT", "ViT")
FIXED_IN = {"Falcon": (2, 14)}
"""Wrong before in earnest, on a CPU with several threads: gradients are added in other places (pytorch#191837)."""
RELEASE = tuple(int(each) for each in torch.__version__.split("+")[0].split(".")[:2])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in SAMPLE else [pytest.mark.matrix]) for each in ARCHITECTURES]
)
def test_an_architecture_that_is_compiled_right_is_not_called_wrong(name):
    if FIXED_IN.get(name, (0, 0)) > RELEASE:
        pytest.skip("this torch compiles it wrong")
    if importlib.util.find_spec(ARCHITECTURES[name].library) is None:
        pytest.skip(f"{ARCHITECTURES[name].library} is not installed")
    found = gradients(*made(name))
    assert not found.wrong, found
    assert not any(each.raised for each in found.verdicts), found
