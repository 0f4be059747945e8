"""What a rank finds that has loaded another's artifacts."""

import pytest

from chapters.where_to_compile import artifacts
from compile_lab.devices import ranks


@pytest.mark.slow
@pytest.mark.processes
def test_the_same_code_is_found_and_a_rank_in_the_code_is_not():
    same, own = ranks.run(artifacts.on_rank, 2, echo=False)[1]
    assert same.hits > 0 == same.misses and own.misses > 0 == own.hits
    assert same.right and own.right and same.nbytes > 10_000
