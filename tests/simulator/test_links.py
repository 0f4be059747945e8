"""Links: public sources; chapter 11 holds the model of all-reduces against 2 to 2,160 GPUs."""

import pytest

from compile_lab.simulator.links import Links, measured


def test_a_machine_with_fewer_cards_than_devices_shares_them_and_never_has_less_than_one():
    links = Links(cards=4)
    assert links.bytes_per_s("all_gather", 32, 8) == pytest.approx(0.9 * 200e9)
    assert links.bytes_per_s("all_gather", 32, 1) == pytest.approx(0.9 * 50e9)


def test_rings_of_gathers_on_one_machine_are_within_a_quarter_of_what_others_measured():
    gathers = [each for each in measured() if each.kind != "all_reduce" and each.machines == 1]
    assert gathers and all(abs(each.off_by) < 0.25 for each in gathers)
