"""One test for each private name behind a pass of the reader's own."""

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from compile_lab._torch import dynamo, passes
from compile_lab._torch.inductor import inductor_config

pytestmark = pytest.mark.processes


def test_inductor_calls_a_keyed_pass_and_asks_for_its_key():
    given = []
    keyed = passes.KeyedPass(given.append, "a key")
    torch.compile(lambda x: x + 1, options={"post_grad_custom_pre_pass": keyed, "fx_graph_cache": False})(torch.ones(3))
    assert len(given) == 1 and isinstance(given[0], fx.Graph)
    assert keyed.uuid() == "a key"
    for name in ("pre_grad", "joint_pre", "joint_post", "post_grad_pre", "post_grad_post"):
        stage, _, when = name.rpartition("_")
        option = f"{stage}_custom_{when}_pass" if when != "grad" else "pre_grad_custom_pass"
        assert getattr(inductor_config, option) is None, option


def test_what_a_backend_raises_is_told_apart():
    def backend(module, inputs):
        raise ValueError("no")

    dynamo.reset_dynamo()
    with pytest.raises(passes.BackendCompilerFailed, match="no"):
        torch.compile(lambda x: x + 3, backend=backend)(torch.ones(2))


def test_inductor_compiles_a_graph_that_writes_into_its_inputs():
    def step(x, y):
        x.copy_(x * 2 + y)
        return [y.sum()]

    x, y = torch.ones(4), torch.arange(4.0)
    run = passes.compiled_graph(make_fx(step, tracing_mode="fake")(x, y), [x, y])
    with torch.no_grad():
        (total,) = run(x, y)
    assert x.tolist() == [2, 3, 4, 5] and total == 6


def test_the_mode_of_tensors_without_data_is_found():
    graph = make_fx(lambda x: x + 1, tracing_mode="fake")(torch.ones(2)).graph
    values = [node.meta.get("val") for node in graph.nodes]
    mode = passes.detect_fake_mode(values)
    with mode:
        assert torch.ones(3).shape == (3,)
    assert passes.detect_fake_mode([]) is None
