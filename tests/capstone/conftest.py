import pytest
from killable import TINY

from mini_model.model import CONFIGS


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(CONFIGS, "tiny", TINY)
