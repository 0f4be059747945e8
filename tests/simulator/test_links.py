"""Links: rates worked out by hand, and public sources; chapter 11 holds the model against 2 to 2,160 GPUs."""

import math

import pytest

from compile_lab.simulator.links import Links, measured

GB = 1e9
LARGE = 2**30


def test_an_axis_has_as_many_cards_as_it_has_devices_in_a_machine():
    links = Links()
    whole, one = (links.bytes_per_s("all_gather", 32, in_machine) for in_machine in (8, 1))
    assert whole == pytest.approx(0.8 * 450 * GB), "eight cards carry as much as a ring of NVLink"
    assert one == pytest.approx(0.9 * 50 * GB)
    assert Links(cards=4).bytes_per_s("all_gather", 32, 8) == pytest.approx(0.9 * 200 * GB)
    assert Links(cards=4).bytes_per_s("all_gather", 32, 1) == pytest.approx(0.9 * 50 * GB), "no less than a card"


def test_a_switch_adds_and_two_machines_send_half_over_the_network():
    links, slow = Links(), Links(card_bytes_per_s=10e9)
    ring = 0.8 * 450 * GB
    assert links.bytes_per_s("all_reduce", 4, 4) == links.bytes_per_s("all_gather", 8, 8) == ring
    assert links.bytes_per_s("all_reduce", 8, 8) == pytest.approx(0.75 * 2 * 7 / 8 * ring)
    assert Links(switch=False).bytes_per_s("all_reduce", 8, 8) == ring
    assert slow.bytes_per_s("all_reduce", 16, 8) == pytest.approx(2 * 15 / 16 * 72 * GB)
    assert slow.bytes_per_s("all_reduce", 24, 8) == slow.bytes_per_s("all_gather", 16, 8) == pytest.approx(72 * GB)


def test_a_message_is_late_to_its_full_rate_and_a_ring_waits_for_each_of_its_steps():
    links = Links()
    latency, sending = 4e-6 * 4 + 12e-6 * 2, LARGE / links.bytes_per_s("all_reduce", 32, 8)
    assert links.seconds("all_reduce", 32, 8, LARGE) == pytest.approx((math.sqrt(latency) + math.sqrt(sending)) ** 2)
    assert links.seconds("all_gather", 32, 8, 0) == pytest.approx(31 * 7.5e-6)
    assert links.seconds("all_gather", 8, 8, 0) == pytest.approx(7 * 2e-6)
    assert links.seconds("send", 2, 1, 45e9) == pytest.approx(1 + 7.5e-6)


def test_rings_of_gathers_on_one_machine_and_public_sources():
    gathers = [each for each in measured() if each.kind != "all_reduce" and each.machines == 1]
    assert gathers and all(abs(each.off_by) < 0.25 for each in gathers)
    assert len({each.source for each in measured()}) > 20 and len(measured()) > 300
    assert not [each for each in measured() if each.seconds <= 0 or each.ranks < 2]
