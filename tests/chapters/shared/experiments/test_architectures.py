"""The recording of fifty architectures: a row each, and the whole report of those that the site shows."""

from chapters.shared.experiments import architectures
from compile_lab.recordings import load
from compile_lab.report import survey
from compile_lab.report.architectures import ARCHITECTURES
from compile_lab.report.cards import report_of
from compile_lab.report.model import CARDS
from compile_lab.report.model_view import page
from compile_lab.report.survey_view import file_of

STORED = load("architectures").result


def test_reports_are_kept_apart_from_the_rows_of_those_that_are_shown(monkeypatch):
    def alone(name, whole):
        return {"name": name, "seconds": 1.0} | ({"report": {"name": name}} if whole else {})

    monkeypatch.setattr(survey, "alone", alone)
    found = architectures.record("cpu", names=("OPT", "BERT"))
    assert found["rows"] == [{"name": "OPT", "seconds": 1.0}, {"name": "BERT", "seconds": 1.0}]
    assert found["reports"] == {"BERT": {"name": "BERT"}}


def test_the_recording_keeps_what_is_promised_of_the_fifty():
    assert [each["name"] for each in STORED["rows"]] == list(ARCHITECTURES)
    assert survey.broken_promises(STORED["rows"]) == []


def test_what_is_shown_are_six_reports_with_every_card_each_a_small_file_of_its_own():
    reports = {name: report_of(data) for name, data in STORED["reports"].items()}
    assert tuple(reports) == architectures.SHOWN
    assert len({file_of(name) for name in ARCHITECTURES}) == len(ARCHITECTURES)
    for each in reports.values():
        assert {card.name for card in each.cards} == set(CARDS) - {"step", "handed", "wrapped"}
        assert "failed" not in {card.severity for card in each.cards}
        assert len(page(each).encode()) < 1_000_000
