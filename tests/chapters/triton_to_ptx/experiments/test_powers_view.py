"""The strip of powers: a square each, wrong ones told apart."""

from chapters.triton_to_ptx.experiments import powers_view

COMPUTED = {(2, n): 2**n for n in range(2, 60)} | {(3, n): 3**n - (n == 5) for n in range(2, 39)}


def test_each_power_is_a_square_and_a_wrong_one_stands_out():
    drawing = powers_view.strip(COMPUTED, "made up")
    assert drawing.svg.count("<rect") == len(COMPUTED)
    assert drawing.svg.count("#D55E00") == 1 and "3**5: 242, not 243" in drawing.svg
    assert drawing.alt.startswith(f"1 of {len(COMPUTED)} powers")
