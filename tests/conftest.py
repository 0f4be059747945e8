"""What every test finds as if it were the first: nothing compiled, and torch's settings as they were."""

import sys

import pytest


@pytest.fixture(autouse=True)
def fresh_dynamo():
    """What earlier tests compiled is forgotten: at most 0.3 ms, and no import of torch for tests that need none."""
    if "torch._dynamo" in sys.modules:
        sys.modules["torch"].compiler.reset()


@pytest.fixture(autouse=True, scope="module")
def threads_stay_as_they_are():
    """Training's last digits depend on the number of threads: a module that changes it puts it back, or fails here."""
    torch = sys.modules.get("torch")
    before = torch and torch.get_num_threads()
    yield
    assert not torch or torch.get_num_threads() == before
