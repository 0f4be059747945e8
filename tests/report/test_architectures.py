"""Ten of the fifty architectures, each with its whole report; the weekly run takes all of them."""

import pytest

from compile_lab.report.architectures import ARCHITECTURES, made
from compile_lab.report.survey import row

TEN = ("GPT-2", "GPT-NeoX", "OPT", "Llama", "Gemma 2", "BERT", "DistilBERT", "BART", "ViT", "ConvNeXt")


def test_they_are_fifty_with_a_name_each():
    assert len(ARCHITECTURES) == 50
    assert {each.library for each in ARCHITECTURES.values()} == {"transformers", "timm"}


def test_a_name_that_is_none_of_them_is_refused_with_the_names():
    with pytest.raises(KeyError, match=r"none of the fifty; they are GPT-2, "):
        made("GPT-17")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TEN)
def test_every_card_is_told_within_its_time_and_the_peak_is_the_allocators(name):
    found = row(name)
    assert found["failed"] == {} and len(found["cards"]) == 8
    assert found["seconds"] < 90
    if name == "GPT-2":  # its loss warns, which breaks the graph
        assert "logging_in_forward" in found["findings"] and "4 graphs" in found["trouble"]
    else:
        assert found["trouble"] == ""
        assert found["predicted_bytes"] == pytest.approx(found["between_calls_bytes"], rel=1e-3)
        if name != "ViT":  # inside the backward of its convolution the library takes memory for itself
            assert found["predicted_bytes"] == pytest.approx(found["measured_bytes"], rel=1e-3)
