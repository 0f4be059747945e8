"""Recordings: what is written can be read, and what is broken is refused by name."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from compile_lab import recordings
from compile_lab.recordings import Provenance, RecordingError, device_folder, load, save

H200 = Provenance(
    device="NVIDIA H200",
    torch="2.11.0+cu130",
    triton="3.6.0",
    cuda="13.0",
    date="2026-11-21",
    command="python -m chapters.record machine",
)


def written(root: Path, change=None, place="nvidia-h200", name="machine") -> Path:
    """A good recording under `root`, after `change` to its content."""
    content = json.loads(save("machine", H200, {"copy": [1]}, root / "good").read_text())
    path = root / "recordings" / place / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    changed = change(content) if change else content
    path.write_text(changed if isinstance(changed, str) else json.dumps(changed))
    return root / "recordings"


def without(part, field):
    return lambda content: {**content, part: {k: v for k, v in content[part].items() if k != field}}


def with_(part, **fields):
    return lambda content: {**content, part: {**content[part], **fields}}


def test_what_is_saved_is_loaded_and_is_called_recorded(tmp_path):
    save("machine", replace(H200, kind="live"), {"copy": [1, 2.5, None]}, tmp_path)
    loaded = load("machine", root=tmp_path)
    assert loaded.result == {"copy": [1, 2.5, None]}
    assert loaded.provenance == replace(H200, kind="recorded")
    assert "kind" not in json.loads((tmp_path / "nvidia-h200" / "machine.json").read_text())["provenance"]
    assert device_folder("NVIDIA A100-SXM4-80GB") == "nvidia-a100-sxm4-80gb"
    save("other", replace(H200, device="Tesla T4"), {"a": 1}, tmp_path)
    assert load("other", root=tmp_path).provenance.device == "Tesla T4", "one other device needs no choice"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda content: "{", "not JSON (line 1, column 2"),
        (lambda content: "[" * 100_000, "nested too deeply"),
        (lambda content: '{"provenance": {}, "result": {"a": NaN}}', "NaN is not a number"),
        (lambda content: f'{{"result": {{"a": {"9" * 10_000}}}}}', f"{'9' * 20}… is larger"),
        (lambda content: '{"result": {"a": 1, "b": 2, "a": 3}}', "'a' stands twice"),
        (lambda content: {"result": content["result"]}, "lacks provenance"),
        (lambda content: {**content, "notes": ""}, "'notes', which no recording has"),
        (lambda content: {**content, "result": {}}, "result is empty"),
        (without("provenance", "torch"), "provenance lacks torch"),
        (with_("provenance", cuda=13.0), "provenance.cuda must be text, and is a number"),
        (with_("provenance", date="21.11.2026"), "must be a day as 2026-11-21"),
        (with_("provenance", device="Tesla T4"), "whose folder is tesla-t4, not nvidia-h200"),
    ],
)
def test_a_broken_file_is_refused_with_its_name_the_rule_and_the_way_out(tmp_path, change, told):
    root = written(tmp_path, change)
    with pytest.raises(RecordingError) as refused:
        load("machine", root=root)
    message = str(refused.value)
    assert message.startswith("book/recordings/nvidia-h200/machine.json: ") and told in message
    assert message.endswith("python -m chapters.record machine")
    assert str(tmp_path) not in message


def test_what_is_no_text_no_regular_file_or_too_large_is_refused(tmp_path):
    path = written(tmp_path) / "nvidia-h200" / "machine.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordingError, match="not UTF-8 text"):
        load("machine", root=path.parents[1])
    with path.open("wb") as file:
        file.truncate(10**10)  # zeros that take no room on the disk
    with pytest.raises(RecordingError, match=r"machine\.json: 10,000 MB"):
        load("machine", root=path.parents[1])
    path.unlink()
    os.mkfifo(path)  # which would be waited for
    with pytest.raises(RecordingError, match=r"machine\.json: not a regular file"):
        load("machine", root=path.parents[1])


def test_with_several_devices_the_reference_is_shown_or_the_reader_chooses(tmp_path):
    others = [replace(H200, device=device) for device in ("Tesla T4", "NVIDIA A100")]
    for other in others:
        save("machine", other, {"a": other.device}, tmp_path)
    with pytest.raises(RecordingError, match="choose one of nvidia-a100, tesla-t4"):
        load("machine", root=tmp_path)
    assert load("machine", device="Tesla T4", root=tmp_path).result == {"a": "Tesla T4"}
    for reference in ("CPU, 2 cores", "NVIDIA H200"):
        save("machine", replace(H200, device=reference), {"a": reference}, tmp_path)
        assert load("machine", root=tmp_path).result == {"a": reference}


@pytest.mark.parametrize("result", [{"a": float("nan")}, {"a": object()}, {}, {"a": {1, 2}}])
def test_what_load_would_refuse_is_not_written(tmp_path, result):
    with pytest.raises(RecordingError):
        save("machine", H200, result, tmp_path)
    assert not list(tmp_path.rglob("*"))


def test_an_interrupted_write_leaves_the_old_recording_and_no_draft(tmp_path, monkeypatch):
    path = save("machine", H200, {"a": "old"}, tmp_path)

    def interrupted(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(recordings.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save("machine", H200, {"a": "new"}, tmp_path)
    assert load("machine", root=tmp_path).result == {"a": "old"}
    assert list(path.parent.iterdir()) == [path]


def test_every_recording_in_the_repository_can_be_read():
    found = [(name, place) for place, names in recordings.names().items() for name in names]
    assert found
    for name, place in found:
        assert load(name, device=place).provenance.kind == "recorded"


def test_the_h200s_rates_are_what_the_book_says():
    result = load("machine", device="NVIDIA H200").result
    assert all(3.5e12 < one["bytes_per_s"]["median"] < 4.8e12 for one in result["copy"])  # of 4.8 TB/s on paper
    (bf16,) = [one for one in result["matmul"] if one["precision"] == "bf16" and one["n"] == 8192]
    assert 600 < bf16["sustained_tflop_per_s"]["median"] < bf16["burst_tflop_per_s"]["median"] < 989
