"""Two of the fifty architectures, each with its whole report; `architectures.yml` takes all of them each week."""

import pytest

from compile_lab.report import survey

TWO = ("DistilBERT", "ConvNeXt")


KEPT = {"name": "M", "seconds": 30.0, "failed": {}, "trouble": "", "predicted_bytes": 1000, "between_calls_bytes": 1000}


def test_promises_are_those_of_fifty_and_a_broken_one_is_said():
    failed = KEPT | {"failed": {"casts": "why"}}
    assert survey.broken_promises([KEPT] * 50) == []
    assert survey.broken_promises([KEPT] * 45 + [failed] * 5) == []
    assert survey.broken_promises([KEPT] * 44 + [failed] * 6) == ["44 of 50 have every card; 45 of 50 are promised"]
    off = KEPT | {"predicted_bytes": 1002}
    none = KEPT | {"predicted_bytes": None, "between_calls_bytes": None}
    assert survey.broken_promises([KEPT] * 40 + [off, none] * 5) == []
    (said,) = survey.broken_promises([KEPT] * 39 + [off] * 11)
    assert said.startswith("the peak of 39 of 50 is the allocator's")
    assert survey.broken_promises([KEPT, KEPT | {"name": "Slow", "seconds": 91.0}]) == ["more than 90 s: Slow"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TWO)
def test_every_card_is_told_and_the_peak_is_the_allocators(name):
    found = survey.row(name, limit_s=300)
    assert found["failed"] == {} and len(found["cards"]) == 9
    assert found["trouble"] == ""
    for held in ("between_calls_bytes", "measured_bytes"):
        assert found["predicted_bytes"] == pytest.approx(found[held], rel=1e-3)
