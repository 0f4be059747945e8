"""The private names around grouped products and packages."""

from compile_lab._torch.grouped import few_tilings
from compile_lab._torch.inductor import inductor_lowering


def test_few_tilings_are_taken_from_those_that_fit_and_all_are_back_afterwards(monkeypatch):
    inductor_lowering()
    from torch._inductor.kernel import mm_grouped

    monkeypatch.setattr(mm_grouped, "early_config_prune", lambda g, m, dtsize, configs, named: configs)
    with few_tilings(3):
        assert mm_grouped.early_config_prune(1, 1, 2, list(range(10)), {}) == [0, 4, 8]
    assert mm_grouped.early_config_prune(1, 1, 2, [1, 2], {}) == [1, 2]
    assert len(mm_grouped.grouped_mm_configs()) > 5
