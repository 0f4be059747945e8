"""The table of known faults: what it says a torch has, and that the board of what torches were asked says the same."""

import json
from pathlib import Path

import pytest

from compile_lab._torch.inductor import inductor_config
from compile_lab.known_faults import KNOWN_FAULTS, faults_met

BOARD = Path(__file__).parents[1] / "chapters" / "is_it_right" / "faults" / "board.json"


@pytest.mark.skipif(not BOARD.exists(), reason="the chapter may be left out")
@pytest.mark.parametrize("fault", KNOWN_FAULTS, ids=lambda each: str(each.number))
def test_the_releases_are_those_that_the_board_has_it_wrong_on(fault):
    rows = {version: kept["faults"].get(str(fault.number)) for version, kept in json.loads(BOARD.read_text()).items()}
    asked = {version: "wrong" in row.values() for version, row in rows.items() if row}
    assert asked and {version: fault.of(version) for version in asked} == asked


def test_a_fault_is_of_its_releases_its_device_and_its_option():
    with inductor_config.patch({"triton.mix_order_reduction": True}):
        asked = ("2.9.1", "2.10.0", "2.14.1", "2.14.0a0+git1", "2.15.0")
        assert [version for version in asked if faults_met(version, "cuda")] == ["2.10.0", "2.14.1", "2.14.0a0+git1"]
        assert faults_met("2.13.0", "cpu") == ()
    with inductor_config.patch({"triton.mix_order_reduction": False}):
        assert faults_met("2.13.0", "cuda") == ()


def test_every_switch_is_one_that_torch_reads_from_the_environment():
    for fault in KNOWN_FAULTS:
        name = fault.environment.partition("=")[0]
        assert name in Path(inductor_config.__file__).read_text() or not faults_met("2.13.0", "cuda")
        assert fault.option in fault.switch and fault.environment in fault.switch
