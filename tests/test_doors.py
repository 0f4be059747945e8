"""Wrong types and impossible values at compile_lab's doors: each is told by name, early, or is right after all."""

import doctest
import functools
import importlib
import inspect
import math
import os
import pkgutil
import random

import pytest
from fuzzed import NOT_CALLABLE, WRONG, complaint

import compile_lab
from compile_lab import doors, recordings
from compile_lab.capture import NotCompiledError
from compile_lab.simulator.patterns import plan
from compile_lab.simulator.pipeline import table
from compile_lab.simulator.wire import step_of

FOLDERS = [each.name for each in pkgutil.walk_packages(compile_lab.__path__, "compile_lab.")]
MODULES = [name for name in FOLDERS if not name.endswith("__main__")] + ["chapters.record", "chapters.exercises"]
TOLD = (ValueError, TypeError, KeyError, OSError, recordings.RecordingError, NotCompiledError)
CALLED = {
    "backward_ms": "backward",
    "bytes_per_ms": "communication",
    "collective_ms": "collective",
    "device": "machine",
}
CALLED |= {"eager_ms": "samples", "compiled_ms": "samples", "gradients": "gradient", "order": "collective"}
CALLED |= {"orders": "micro-batch", "rates": "measured", "results": "result", "trace": "null byte", "x": "tensor"}
"""What a message calls an argument, where that is not its name."""
OBSCURE = """
Code.mark Series.at budgets.values counted.warm_up endings.timeout faults_met.version gradient_error.exact
gradient_error.gradients gradients.batch made.name measured.expected measured_plan.expected measure_several.cases
merged.spans microseconds.row overlap_of.collectives overlap_of.compute plans.budgets quantised.dtype requests.steps
save.result share_lost.several slowed.lost stage_at_fault.batch throttled.bytes_per_s total_ms.spans
"""
"""Arguments whose wrong values are still told by what goes wrong with them."""
WRITES = {"save.root"}
"""None is the repository's own folder."""


def is_door(thing):
    code = getattr(thing.__init__ if isinstance(thing, type) else thing, "__code__", None)
    return code is not None and code.co_filename == doors.__file__ and thing.__module__ != doors.__name__


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Each door with the arguments of the first call that an example in a docstring makes of it."""
    monkeypatch.chdir(tmp_path)
    made, modules = {}, [importlib.import_module(name) for name in MODULES]

    def noted(door, called):
        @functools.wraps(called)
        def call(*args, **kwargs):
            made.setdefault(door, (args[isinstance(door, type) :], kwargs))
            return called(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for module in modules:
            for name, thing in list(vars(module).items()):
                if is_door(thing) and isinstance(thing, type) and thing.__module__ == module.__name__:
                    patch.setattr(thing, "__init__", noted(thing, thing.__init__))
                elif is_door(thing) and not isinstance(thing, type):
                    patch.setattr(module, name, noted(thing, thing))
        for module in modules:
            for each in doctest.DocTestFinder().find(module):
                runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
                runner.run(each, out=lambda printed: None, clear_globs=False)
    return made


@pytest.mark.processes
def test_what_no_door_takes_is_told_by_name(calls, alarm):
    seed = int(os.environ.get("DOORS_SEED", "0"))
    chance, found = random.Random(seed), {}
    for door, (args, kwargs) in calls.items():
        good = inspect.signature(door).bind(*args, **kwargs)
        for name in good.arguments:
            where = f"{door.__qualname__}.{name}"
            if where in WRITES or where in OBSCURE.split() or "VAR" in good.signature.parameters[name].kind.name:
                continue
            for value in chance.sample(NOT_CALLABLE if callable(good.arguments[name]) else WRONG, 8):
                given = inspect.BoundArguments(good.signature, dict(good.arguments) | {name: value})
                names = (*good.arguments, CALLED.get(name, name), str(value), doors.shown(value))
                call = functools.partial(door, *given.args, **given.kwargs)
                alarm(300)
                found[f"{where}={doors.shown(value)}"] = complaint(call, names, TOLD)
    wrong = [f"{case} {said}" for case, said in found.items() if said]
    assert not wrong, "\n".join([f"seed {seed}, {len(wrong)} of {len(found)}:", *wrong])
    assert len(calls) > 150 and [*found.values()].count("") > 2000


def test_every_function_at_a_face_is_a_door():
    faces = [importlib.import_module(f"compile_lab.{each.name}") for each in pkgutil.iter_modules(compile_lab.__path__)]
    public = [getattr(face, name) for face in faces for name in getattr(face, "__all__", ())]
    functions = [each for each in public if inspect.isfunction(each)]
    assert len(functions) > 70
    assert not [each.__qualname__ for each in functions if each.__code__.co_filename != doors.__file__]


def test_the_message_is_the_rule():
    with pytest.raises(TypeError, match=r"^plan: shape is 5; it must be of type Shape \(int is not"):
        plan(5, "fsdp", 2)
    with pytest.raises(ValueError, match="stages is True; it must be a whole number from 1"):
        table("1F1B", True, 2)
    with pytest.raises(ValueError, match="compute_ms is nan; it must be a finite number from 0"):
        step_of(["MM"], math.nan, 1)


def test_a_door_checks_what_follows_the_named_arguments():
    @doors.door
    def joined(first: str, *others: str, between: str = ",", **marks: int) -> str:
        return between.join([first, *others, *marks])

    assert joined("a", "b", between="-", c=1) == "a-b-c"
    with pytest.raises(TypeError, match=r"joined: others is \('b', 3\).*item 1"):
        joined("a", "b", 3)
    with pytest.raises(TypeError, match=r"joined: marks is \{'c': 'd'\}"):
        joined("a", c="d")
