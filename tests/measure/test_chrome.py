"""The profiler's trace as text: read as often as it is asked for, with the program's own labels in it."""

import gzip

import pytest
import torch
from torch.profiler import record_function

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
