"""Numbers, bytes and times in words."""

import pytest

from compile_lab.page import units


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (1_234_567, "1.23 MB"),
        (3_556_000, "3.56 MB"),
        (999.7e6, "1,000 MB"),
        (17e9, "17 GB"),
        (26.94e9, "26.9 GB"),
        (1.5e12, "1,500 GB"),
        (-2000, "-2 kB"),
    ],
)
def test_bytes_have_a_unit_that_reads_well(nbytes, text):
    assert units.with_unit(nbytes) == text


def test_bytes_of_a_power_of_two_have_binary_units():
    sizes = (512, 2**10, 2**19, 2**20, 2**28, 2**33)
    texts = ["512 bytes", "1 KiB", "512 KiB", "1 MiB", "256 MiB", "8 GiB"]
    assert [units.with_unit(size, units.BINARY) for size in sizes] == texts


def test_the_smallest_unit_of_a_table_is_the_last():
    assert units.unit_of(5, {"GB": 1e9, "MB": 1e6}) == ("MB", 1e6)
    assert units.unit_of(1e9) == ("GB", 1e9)
    assert units.in_gb(35_600_000) == "0.0356 GB"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.035_64, "0.0356"), (99.96, "100"), (332.4, "332"), (1008.7, "1,010"), (-18_520.0, "-18,500")],
)
def test_a_large_number_has_commas_and_no_power_of_ten(value, text):
    assert units.significant(value) == text
    assert units.significant(370.2, 2) == "370"


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (-0.94, ".1f", "−0.9"),
        (0.123, ".0%", "+12%"),
        (-0.04, ".1f", "0.0"),
        (0.0, ".1%", "0.0%"),
        (-1e-7, ".5f", "0.00000"),
    ],
)
def test_a_difference_has_a_sign_and_zero_has_none(value, form, text):
    assert units.signed(value, form) == text


def test_a_time_has_its_quartiles():
    row = {"median_us": 1234.56, "low_us": 12.34, "high_us": 20_000.04}
    assert units.microseconds(row) == "1,235 (12.3 to 20,000)"
    assert units.milliseconds(row) == "1.235 (0.01234 to 20)"


@pytest.mark.parametrize(("op", "text"), [("aten.mm.default", "mm.default"), ("prims.sum", "sum"), ("add", "add")])
def test_an_operation_loses_its_namespace(op, text):
    assert units.without_namespace(op) == text
