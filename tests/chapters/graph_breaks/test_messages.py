"""heard: what torch says of a break by itself, as a process of its own hears it."""

import hashlib
import inspect
import logging
import subprocess
import sys
import warnings

import pytest
import torch

from chapters.graph_breaks.messages import heard
from compile_lab.dynamo import trace

pytestmark = pytest.mark.processes


def reads(x):
    return x / x.max().item()


def hashes(x):
    return x.sin() * hashlib.sha256(b"a").digest()[0]


def prints(x):
    y = x.sin()
    print("here")
    return y.cos()


def loops(x):
    for _ in range(2):
        x = x.sin()
        print("here")
    return x


def warns(x):
    y = x.sin()
    warnings.warn("of its own", stacklevel=2)
    return y.cos()


SAID = {
    reads: "log: Graph break from `Tensor.item()`",
    hashes: "UserWarning: Dynamo does not know how to trace the",
    prints: "",
    warns: "",
}


@pytest.mark.parametrize("fn", SAID, ids=lambda fn: fn.__name__)
def test_what_is_heard_begins_with_what_torch_says_and_the_break_is_there_either_way(fn):
    for _ in range(2):  # torch would say it once
        said = heard(fn, torch.ones(3))
        assert len(said) == bool(SAID[fn]) and "".join(said).startswith(SAID[fn])
    assert trace(fn, torch.ones(3)).breaks


@pytest.mark.slow
@pytest.mark.parametrize("fn", [reads, hashes, loops], ids=lambda fn: fn.__name__)
def test_a_fresh_interpreter_writes_the_same(fn):
    source = f"import hashlib, torch\n{inspect.getsource(fn)}\n"
    source += f"torch.compile({fn.__name__}, backend='eager')(torch.ones(3))"
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    said = heard(fn, torch.ones(3))
    assert bool(ran.stderr) == bool(said)
    for line in "".join(said).partition(": ")[2].splitlines()[:5]:
        assert line.strip() in ran.stderr


def test_loggers_and_warnings_are_as_they_were():
    logger = logging.getLogger("torch._dynamo")
    before = logger.level, list(logger.handlers), logger.propagate, list(warnings.filters)
    heard(reads, torch.ones(3))
    assert before == (logger.level, list(logger.handlers), logger.propagate, list(warnings.filters))


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="fn is 3"):
        heard(3)
