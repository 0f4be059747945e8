"""The profiler's trace as text: read as often as it is asked for, with the program's own labels in it."""

import gzip
import inspect

import pytest
import torch
from torch.profiler import profile, record_function, schedule

from compile_lab.measure import chrome
from compile_lab.measure.trace import profiling, read

pytestmark = pytest.mark.processes

QUOTED = ('a"b', '"', '""', 'a"}],"b', 'a","ph":"X', 'a", "pid": 3, "name": "z', '{"name":"x"}')


def recorded(label="mark", **options):
    with profiling("cpu", **options) as profiler, record_function(label):
        torch.ones(2)
    return profiler


def labels(trace):
    return [mark.name for mark in read(trace).marks]


def test_a_profiler_is_read_again_and_after_its_readers_own_export(tmp_path):
    profiler = recorded()
    once = read(profiler)
    assert read(profiler) == once
    profiler.export_chrome_trace(str(tmp_path / "own.json"))
    assert read(profiler) == once
    names = [(event.kind, event.name, event.start_us) for event in once.operators + once.marks]
    own = read(tmp_path / "own.json")
    assert names == [(event.kind, event.name, event.start_us) for event in own.operators + own.marks]


@pytest.mark.parametrize("label", [*QUOTED, "a\\b", "a\\", '\\"', "a\nb", "a\tb", "a\rb", "é 😀", "a\x01b", "unknown"])
def test_a_label_of_a_profiler_is_the_programs(label):
    assert labels(recorded(label)) == [label]


@pytest.mark.parametrize("label", QUOTED)
def test_a_double_quote_in_a_files_label_is_part_of_it(tmp_path, label):
    recorded(label).export_chrome_trace(str(tmp_path / "trace.json"))
    assert labels(tmp_path / "trace.json") == [label]


def test_a_files_own_name_and_its_zip_and_torchs_other_exporter_are_read(tmp_path):
    recorded('a"b').export_chrome_trace(str(tmp_path / 'its "name".json'))
    assert labels(tmp_path / 'its "name".json') == ['a"b']
    recorded('a"b').export_chrome_trace(str(tmp_path / "trace.json.gz"))
    assert labels(tmp_path / "trace.json.gz") == ['a"b']
    recorded('a"\\\nb').export_chrome_trace(str(tmp_path / "python.json"), use_python_export=True)
    assert labels(tmp_path / "python.json") == ['a"\\\nb']


def test_a_file_of_an_older_torch_has_its_event_on_one_line(tmp_path):
    event = '"ph": "X", "cat": "user_annotation", "name": "a"b", "pid": 1, "tid": 2,\n "ts": 3, "dur": 4'
    (tmp_path / "old.json").write_text(f'{{"traceEvents": [{{{event}}}], "traceName": "a"b"}}')
    assert labels(tmp_path / "old.json") == ['a"b']


def test_allocations_are_no_spans():
    assert not read(recorded(profile_memory=True)).of("cpu_instant_event")


def test_a_stack_through_a_file_with_a_quote_in_its_name_is_read(tmp_path):
    made = {}
    exec(compile("import torch\ndef step(): return torch.ones(2)", 'a "b".py', "exec"), made)
    with profiling("cpu", with_stack=True) as profiler:
        made["step"]()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    for trace in (profiler, tmp_path / "trace.json"):
        assert any('a "b".py' in event.name for event in read(trace).of("python_function"))


def test_a_text_that_cannot_be_told_is_named_and_its_rule(tmp_path):
    file = tmp_path / "trace.json"
    recorded('a"b').export_chrome_trace(str(file))
    whole = file.read_text()
    file.write_text(whole.replace('"Record function id": 0', '"Concrete Inputs": ["q"x"]', 1))
    with pytest.raises(
        ValueError, match=r"""(?s)trace\.json is no JSON .*the event 'a"b'.*"q"x".*as they are.*Leave"""
    ):
        read(file)
    profiler = recorded()
    profiler.add_metadata_json("run", 'seven"')
    with pytest.raises(
        ValueError, match=r"""the profiler's trace is no JSON .*before its first event: '"run": seven"""
    ):
        read(profiler)


@pytest.mark.parametrize("left", [10, 1500, -30, -2])
def test_a_file_that_was_cut_off_says_so(tmp_path, left):
    file = tmp_path / "trace.json"
    recorded('a"b').export_chrome_trace(str(file))
    file.write_text(file.read_text()[:left])
    with pytest.raises(ValueError, match=r"trace\.json is not a whole JSON file .*was the profiler stopped"):
        read(file)
    file.write_bytes(gzip.compress(b"{}")[:-4])
    with pytest.raises(ValueError, match=r"trace\.json is not a whole JSON file"):
        read(file)


def test_a_profiler_that_has_no_trace_says_so():
    with pytest.raises(ValueError, match="never started, or has not stopped"):
        read(profile())
    with profiling("cpu") as running:
        with pytest.raises(ValueError, match="Read it after its with block"):
            read(running)
        torch.ones(1)
    assert read(running).operators
    with profiling("cpu", schedule=schedule(wait=3, warmup=1, active=1)) as short:
        short.step()
    with pytest.raises(ValueError, match="a step in which its schedule records"):
        read(short)


def test_before_torch_213_a_trace_is_had_once_and_the_error_says_what_to_do(monkeypatch, tmp_path):
    exports = profile.export_chrome_trace
    monkeypatch.setattr(profile, "export_chrome_trace", lambda self, path: exports(self, path))
    assert chrome._PYTHONS not in inspect.signature(profile.export_chrome_trace).parameters
    profiler = recorded('a"b')
    assert labels(profiler) == ['a"b']
    with pytest.raises(ValueError, match=r"already saved.*before torch 2\.13 it is exported once\. Read the file"):
        read(profiler)
