"""Numbers and bytes in words, where no page shows them: at the ends of a unit, below zero, and at zero."""

from compile_lab.page import units


def test_bytes_have_a_unit_that_reads_well():
    sizes = (0, 999, 1000, 999.7e6, 1.5e12, -2000)
    texts = ["0 bytes", "999 bytes", "1 kB", "1,000 MB", "1,500 GB", "-2 kB"]
    assert [units.with_unit(size) for size in sizes] == texts
    assert [units.with_unit(size, units.BINARY) for size in (512, 2**10, 2**33)] == ["512 bytes", "1 KiB", "8 GiB"]


def test_a_large_number_has_commas_and_no_power_of_ten():
    values, texts = (0, 0.035_64, 99.96, 1008.7, -18_520.0), ["0", "0.0356", "100", "1,010", "-18,500"]
    assert [units.significant(value) for value in values] == texts


def test_a_difference_has_a_sign_and_zero_has_none():
    given = ((-0.94, ".1f"), (0.123, ".0%"), (-0.04, ".1f"), (0.0, ".1%"), (-1e-7, ".5f"))
    assert [units.signed(*each) for each in given] == ["−0.9", "+12%", "0.0", "0.0%", "0.00000"]
