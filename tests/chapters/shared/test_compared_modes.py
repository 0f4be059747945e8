"""Of what the pages compare, nothing comes from a time that another protocol spoiled."""

from chapters.shared.compared_modes import comparisons


def test_every_comparison_has_eager_and_default_and_names_its_vocabulary():
    found = comparisons()
    assert list(found) == [
        "MiniGPT inference",
        "GPT-2 inference, batch 1",
        "GPT-2 inference, batch 8",
        "GPT-2 training",
    ]
    assert all(one.eager.call and one.costs["default"].call for one in found.values())
    assert found["MiniGPT inference"].costs["default"].cold is None, "it waited for the compiler's workers"
    assert "default" not in found["MiniGPT inference"].started("cold")
    assert len(found["GPT-2 training"].costs["default"].cold.runs_s) == 3
    assert not found["MiniGPT inference"].limits and not found["GPT-2 inference, batch 1"].limits
