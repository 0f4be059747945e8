"""What moved between two reports: numbers, verdicts, findings; and a file that is no report."""

import dataclasses
import json

import pytest

from compile_lab.report.cards import CardFigure, NamedFinding, ReportCard, ReportData
from compile_lab.report.compare import earlier, moved
from compile_lab.report.given import UnusableModel

MEMORY = ReportCard("memory", "Memory", "It fits.", "good", (), (CardFigure("peak", 2_000_000, "bytes"),))
BREAKS = ReportCard("breaks", "Breaks", "None.", "good", (), (CardFigure("graph breaks", 0), CardFigure("graphs", 1)))
FINDING = NamedFinding("eval_mode", "The model is in eval mode.", "told", "cure")
REPORT = ReportData("M", (("chip", "virtual H200"),), (MEMORY, BREAKS), (FINDING,), 16, (), "torch 2.13", ())


@pytest.fixture
def before(tmp_path):
    path = tmp_path / "before.json"
    path.write_text(json.dumps(REPORT.as_data()))
    return earlier(path)


def test_numbers_verdicts_and_findings_that_moved_are_told(before):
    more = (CardFigure("graph breaks", 2), CardFigure("graphs", 3))
    broken = dataclasses.replace(BREAKS, severity="bad", figures=more)
    less = dataclasses.replace(MEMORY, figures=(CardFigure("peak", 1_500_000, "bytes"),))
    changed = {"findings": (), "provenance": "torch 2.15", "facts": (("chip", "virtual A100"),)}
    card = moved(before, dataclasses.replace(REPORT, cards=(broken, less), **changed))
    assert card.verdict == "3 of 3 numbers moved since the earlier report; 0 troubles came and 1 went."
    assert card.severity == "look"
    assert ("memory", "peak", "2 MB", "1.5 MB", "−25.0%") in card.parts[0].rows
    assert ("breaks", "graph breaks", "0", "2", "new") in card.parts[0].rows
    assert card.parts[1].rows == (("Breaks", "nothing to do", "costs you something"),)
    said = " ".join(part.text for part in card.parts[2:])
    assert all(word in said for word in ("Went: The model is in eval mode.", "torch 2.13", "torch 2.15", ": chip."))


def test_a_card_of_one_report_only_is_not_compared_and_named(before):
    card = moved(before, dataclasses.replace(REPORT, cards=(MEMORY,)))
    assert card.verdict.startswith("0 of 1 numbers") and "not compared: breaks" in card.parts[-1].text


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "M", "cards": [1]}'])
def test_a_file_that_is_no_report_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(UnusableModel, match=r"other\.json holds no report .*--json"):
        earlier(path)
