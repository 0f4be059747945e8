"""The private names of compile caches, of packages and of grouped products."""

import pytest
import torch

from compile_lab._torch import packages
from compile_lab._torch.caches import key_parts_heard
from compile_lab._torch.dynamo import reset_dynamo
from compile_lab._torch.grouped import few_tilings
from compile_lab._torch.inductor import inductor_lowering, inductor_modes
from compile_lab._torch.packages import loader, package_sources, packaged, unpacked

pytestmark = pytest.mark.processes


def test_the_parts_of_a_key_are_heard_and_the_graph_is_one_of_them():
    parts = {}
    reset_dynamo()
    with inductor_modes().fresh_cache(), key_parts_heard(parts):
        torch.compile(lambda x: x + 1)(torch.ones(3))
    assert len(parts) > 50 and {"gm", "torch_version"} <= set(parts)


@pytest.mark.slow
def test_a_package_is_made_loaded_and_shows_its_sources(tmp_path):
    model, x = torch.nn.Linear(4, 16).eval(), torch.randn(2, 4)
    with torch.no_grad():
        file = packaged(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    torch.testing.assert_close(unpacked(file)(x), model(x))
    torch.testing.assert_close(loader()(file)(x), model(x))
    assert any("AOTInductorModel" in source for source in package_sources(file))


def test_a_package_that_ends_a_process_is_refused_before_it_ends_this_one(monkeypatch, tmp_path):
    monkeypatch.setattr(packages, "LOAD", "import os; os.abort()")
    monkeypatch.setattr(packages, "_ENDED", [])
    with pytest.raises(RuntimeError, match=r"loaded model.pt2 was ended by SIGABRT: .* run it from C\+\+"):
        unpacked(tmp_path / "model.pt2", tried=True)


def test_few_tilings_are_taken_from_those_that_fit_and_all_are_back_afterwards(monkeypatch):
    inductor_lowering()
    from torch._inductor.kernel import mm_grouped

    monkeypatch.setattr(mm_grouped, "early_config_prune", lambda g, m, dtsize, configs, named: configs)
    with few_tilings(3):
        assert mm_grouped.early_config_prune(1, 1, 2, list(range(10)), {}) == [0, 4, 8]
    assert mm_grouped.early_config_prune(1, 1, 2, [1, 2], {}) == [1, 2]
    assert len(mm_grouped.grouped_mm_configs()) > 5
