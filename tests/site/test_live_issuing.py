"""CPU and GPU, live: Python in the page gives CPython's answers."""

import json

import pytest
from test_live import Reader, differing

ISSUING = [
    {"way": way, "kernels": kernels, "kernel_time": kernel_time, "cost_of_an_issue": issue} | compiled
    for way in ("eager", "compiled", "CUDA graph")
    for kernels in (1, 50, 333, 0, 7.5)
    for kernel_time, issue in ((3.2, 14), (0.7, 0), (41.3, 6.1))
    for compiled in (
        {"fused_into_one": 1.3, "work_left": 78, "launch_of_a_graph": 61},
        {"fused_into_one": 0.9, "work_left": 33.3, "launch_of_a_graph": 0},
    )
]


@pytest.mark.browser
@pytest.mark.parametrize("chapter", ["00_eager_baseline", pytest.param("06_compile_modes", marks=pytest.mark.matrix)])
def test_the_answers_about_cpu_and_gpu_are_cpythons(visit, chapter):
    reader = Reader(visit(f"notebooks/{chapter}.html"), title="CPU and GPU: who waits?")
    asked = [json.dumps({"panel": "compile_lab.simulator.issuing_view:panel", "choice": each}) for each in ISSUING]
    assert differing(reader, asked) == [] and len(asked) == 90
    if (answers := reader.page.get_by_label("Show all answers")).count():  # it may tell one, and is veiled until then
        answers.check()
    reader.type("kernel_time", 41.3)
    reader.wait(kernel_time=41.3)
    assert "The GPU limits" in reader.panel() and reader.troubles == []
