"""Numbers, bytes and times in words."""

from compile_lab.page import units


def test_bytes_have_a_unit_that_reads_well():
    sizes = (0, 999, 1000, 1_234_567, 999.7e6, 26.94e9, 1.5e12, -2000)
    texts = ["0 bytes", "999 bytes", "1 kB", "1.23 MB", "1,000 MB", "26.9 GB", "1,500 GB", "-2 kB"]
    assert [units.with_unit(size) for size in sizes] == texts


def test_bytes_of_a_power_of_two_have_binary_units():
    sizes = (512, 2**10, 2**19, 2**20, 2**33)
    texts = ["512 bytes", "1 KiB", "512 KiB", "1 MiB", "8 GiB"]
    assert [units.with_unit(size, units.BINARY) for size in sizes] == texts


def test_the_smallest_unit_of_a_table_is_the_last():
    assert units.unit_of(5, {"GB": 1e9, "MB": 1e6}) == ("MB", 1e6)
    assert units.unit_of(1e9) == ("GB", 1e9)
    assert units.in_gb(35_600_000) == "0.0356 GB"


def test_a_large_number_has_commas_and_no_power_of_ten():
    values, texts = (0, 0.035_64, 99.96, 1008.7, -18_520.0), ["0", "0.0356", "100", "1,010", "-18,500"]
    assert [units.significant(value) for value in values] == texts and units.significant(370.2, 2) == "370"


def test_a_share_is_in_per_cent_with_a_space():
    assert [units.percent(0.628), units.percent(0.0251, 1), units.percent(1)] == ["63 %", "2.5 %", "100 %"]


def test_a_difference_has_a_sign_and_zero_has_none():
    given = ((-0.94, ".1f"), (0.123, ".0%"), (-0.04, ".1f"), (0.0, ".1%"), (-1e-7, ".5f"))
    assert [units.signed(*each) for each in given] == ["−0.9", "+12%", "0.0", "0.0%", "0.00000"]
