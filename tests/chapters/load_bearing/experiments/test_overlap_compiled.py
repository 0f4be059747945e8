"""The recording overlap_scheduled: its cases, and of which batch."""

from chapters.load_bearing.experiments import overlap_scheduled


def test_what_is_scheduled_is_compared_with_plain_buckets_at_the_largest_batch(monkeypatch):
    monkeypatch.setattr(overlap_scheduled, "compared", lambda cases, device, batches, _: (cases, batches))
    cases, batches = overlap_scheduled.record("cuda")
    assert list(cases("cuda", 32, None)) == ["FSDP, 25 MB", "FSDP, scheduled", "FSDP, scheduled in buckets"]
    assert list(batches) == [32]
