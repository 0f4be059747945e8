"""What the outside relies on: the workflows, the citation, the licences."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def load(path):
    """A workflow; YAML reads its key ``on`` as the truth value."""
    workflow = yaml.safe_load(path.read_text("utf-8"))
    workflow["on"] = workflow.pop(True, None) or workflow["on"]
    return workflow


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


TEMPLATES = ROOT / ".github/ISSUE_TEMPLATE"
FOLLOWS = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.github-issue-forms": [path for path in TEMPLATES.glob("*.yml") if path.stem != "config"],
    "vendor.github-issue-config": [TEMPLATES / "config.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}


@pytest.mark.parametrize("schema", FOLLOWS)
def test_a_file_follows_its_public_schema(schema):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, FOLLOWS[schema])]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_the_form_for_a_wrong_cell_asks_for_what_is_needed():
    fields = yaml.safe_load((TEMPLATES / "cell.yml").read_text("utf-8"))["body"]
    required = {field["id"] for field in fields if field.get("validations", {}).get("required")}
    assert {"chapter", "cell", "machine", "output"} <= required


def test_only_a_tag_makes_a_release_and_only_after_everything_is_checked():
    workflow = load(ROOT / ".github/workflows/release.yml")
    assert set(workflow["on"]) == {"push"} and workflow["on"]["push"] == {"tags": ["v*"]}
    commands = [step.get("run", "") for step in steps(workflow)]
    assert commands.index("make release") < next(at for at, each in enumerate(commands) if "gh release create" in each)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_pins_its_actions_and_limits_its_time_and_rights(path):
    workflow = load(path)
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w./-]+@(v\d+|[0-9a-f]{40})", step["uses"])
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    assert workflow["permissions"] == {"contents": "read"}


def test_each_push_and_pull_request_is_tested_on_every_python_that_is_promised():
    workflow = load(ROOT / ".github/workflows/test.yml")
    assert {"push", "pull_request"} <= set(workflow["on"])
    job = workflow["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert job["env"]["REQUIRE_BROWSER"] == "1"
    assert {"make lint", "make test"} <= {step.get("run") for step in job["steps"]}


@pytest.mark.parametrize(
    ("name", "command"), [("whole", "make test-all"), ("architectures", "compile_lab.report.survey")]
)
def test_what_make_test_leaves_out_and_the_survey_run_weekly_and_a_failure_is_red(name, command):
    workflow = load(ROOT / f".github/workflows/{name}.yml")
    (run,) = (step["run"] for step in steps(workflow) if command in step.get("run", ""))
    assert "schedule" in workflow["on"] and ("|" not in run or "pipefail" in run)
    assert not any(one.get("continue-on-error") for one in (*workflow["jobs"].values(), *steps(workflow)))


REPORT = """\
12 passed
_______________________ notebooks/06_peak_memory.ipynb::Cell 4 _______________________
Notebook cell execution failed
Cell 4: Cell execution caused an exception
_______________________ notebooks/06_peak_memory.ipynb::Cell 9 _______________________
Notebook cell execution failed
Cell 9: Cell outputs differ
XFAIL tests/devices/test_steps.py::test_two - torch 2.15: it waits later
FAILED notebooks/06_peak_memory.ipynb::Cell 4
FAILED notebooks/06_peak_memory.ipynb::Cell 9
FAILED tests/dynamo/test_guards.py::test_one - AssertionError: 3 != 4
3 failed, 12 passed in 60.00s
"""


@pytest.mark.slow
@pytest.mark.parametrize(("report", "told"), [(REPORT, "2 notebooks/06_peak_memory.ipynb"), (None, "None is named.")])
def test_the_weekly_run_names_what_differs(tmp_path, report, told):
    weekly = steps(load(ROOT / ".github/workflows/weekly.yml"))
    (script,) = (step["run"] for step in weekly if step.get("name") == "What differs, by name")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    python = tmp_path / ".venv/bin/python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "requirements.txt").write_text((ROOT / "requirements.txt").read_text())
    if report:
        (tmp_path / "report.txt").write_text(report)
    environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"), "PYTHONPATH": str(ROOT)}
    script = script.replace("${{ steps.run.outcome }}", "failure")
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=True, capture_output=True)
    said = (tmp_path / "summary").read_text()
    assert told in said and "Pinned: torch==" in said and f"torch {torch.__version__}" in said
    _, raising, known, rest = re.split("### Cells that raise|### Differences|### Each", said)
    cells = re.findall(r"notebooks/\S+::Cell \d+", raising)
    assert cells == (["notebooks/06_peak_memory.ipynb::Cell 4"] if report else [])
    assert ("XFAIL tests/devices/test_steps.py::test_two - torch 2.15: it waits later" in known) == bool(report)
    for line in (report or "").splitlines():
        assert line in rest or line.startswith("XFAIL")


def test_citation_and_packaging_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    title = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["title"]
    assert citation["version"] == project["version"]
    assert citation["title"] == title
    assert set(citation["license"]) == set(project["license"].split(" AND "))


def test_what_the_site_ships_is_pinned():
    packages = json.loads((ROOT / "book/package.json").read_text("utf-8"))
    pins = {**packages["dependencies"], **packages["devDependencies"]}
    locked = json.loads((ROOT / "book/package-lock.json").read_text("utf-8"))["packages"]
    assert {name: locked[f"node_modules/{name}"]["version"] for name in pins} == pins


def test_contributing_shows_every_command():
    shown = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    targets = re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    assert len(targets) > 8
    assert [target for target in targets if f"`make {target}`" not in shown] == []


@pytest.mark.parametrize("name", ["AGENTS.md", "README.md", "CONTRIBUTING.md", "book/teaching.md", "paper.md"])
def test_what_a_page_tells_to_run_and_to_read_is_there(name):
    text = (ROOT / name).read_text("utf-8")
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))
    code = re.findall(r"`([^`\n]+)`|^(make .+)$", text, flags=re.MULTILINE)
    commands = {found[1] for span in code for found in [re.match(r"make ([a-z][\w-]*)", "".join(span))] if found}
    assert commands and commands <= targets, commands - targets
    links = re.findall(r"\]\((?!https?:|\.\./\.\./actions)([^)#\s]+)", text)
    assert [link for link in links if not (ROOT / name).parent.joinpath(link).exists()] == []


def test_readme_fits_two_screens():
    """Of about 45 lines each, of about 150 characters."""
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert sum(max(1, -(-len(line) // 150)) for line in lines) <= 90


def test_contributing_names_every_folder_of_the_packages():
    tree = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Where things live")[2].split("```")[1]
    named = {line.split()[0] for line in tree.splitlines() if line.startswith("  ") and line.split()[0].endswith("/")}
    packages = [path for name in ("compile_lab", "mini_model", "capstone") for path in (ROOT / name).iterdir()]
    packages += [ROOT / "chapters/shared", ROOT / "chapters/exercises"]
    assert named == {f"{path.name}/" for path in packages if (path / "__init__.py").exists()}
