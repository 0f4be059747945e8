"""Torch's tables of pipeline schedules without torch: cut out of the installed torch's source, for the reader's page.

What torch wrote stays word for word. Left out is what runs a schedule: its base class, which needs process groups, has
a stand-in that keeps what the tables are made from. A test holds the tables against torch's own.
"""

import ast
import importlib.metadata
import importlib.util
from pathlib import Path

PLACE = "torch/distributed/pipelining/_schedule_visualizer.py"
"""Where ``compile_lab._torch.distributed`` asks torch for the tables; there the cut stands in for it."""

WANTED = [f"Schedule{name}" for name in ("LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble")]
WANTED += ["ScheduleDualPipeV"]
HEAD = '''"""Cut out of torch {version}, torch/distributed/pipelining, while the book was built: do not edit.

Copyright (c) Meta Platforms, Inc. and affiliates. BSD-3-Clause; the terms stand in torch-LICENSE.txt.
"""

from __future__ import annotations

from types import SimpleNamespace
'''
STAND_INS = {
    "_check_torch_compile_compatibility": "def _check_torch_compile_compatibility(*_): ...",
    "_PipelineScheduleRuntime": """
class _PipelineScheduleRuntime:
    def __init__(self, stages, n_microbatches, **_):
        self._stages, self._n_microbatches = stages, n_microbatches
        self._num_stages, self._n_local_stages = stages[0].num_stages, len(stages)
        self.rank, self.pp_group_size = stages[0].group_rank, stages[0].group_size

    def _prepare_schedule_with_comms(self, orders): ...
""",
}
PROGRAM = """
def get_schedule_ops(schedule, pp_degree, num_microbatches):
    stages = [SimpleNamespace(group_rank=0, group_size=pp_degree, num_stages=2 * pp_degree) for _ in range(2)]
    made = globals()[f"Schedule{schedule}"](stages, num_microbatches)
    return [made.pipeline_order[rank] for rank in range(pp_degree)]
"""


def cut() -> str:
    """The source of a module with ``get_schedule_ops`` for the schedules that put two stages on a rank."""
    folder = Path(importlib.util.find_spec("torch").submodule_search_locations[0]) / "distributed/pipelining"
    there: dict[str, str] = {}  # by name, in the order of the source
    for file in ("_utils.py", "schedules.py"):
        source = (folder / file).read_text("utf-8")
        lines = source.splitlines()
        for node in ast.parse(source).body:
            there |= dict.fromkeys(_bound(node), "\n".join(lines[node.lineno - 1 : node.end_lineno]))
    there |= STAND_INS
    wanted, names = set(), list(WANTED)
    while names:
        if (name := names.pop()) in there and name not in wanted:
            wanted.add(name)
            names += _named(ast.parse(there[name]))
    kept = dict.fromkeys(source for name, source in there.items() if name in wanted)
    return "\n\n".join([HEAD.format(version=importlib.metadata.version("torch")), *kept, PROGRAM])


def _bound(node: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module gives a meaning to; what torch imports of itself has none."""
    match node:
        case ast.ClassDef() | ast.FunctionDef():
            return [node.name]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.Import() | ast.ImportFrom(level=0):
            return [alias.asname or alias.name for alias in node.names]
    return []


def _named(tree: ast.AST) -> list[str]:
    """The names that code uses when it runs, not those of its annotations: these are never evaluated."""
    if isinstance(tree, ast.Name):
        return [tree.id]
    parts = [(field, part) for field, part in ast.iter_fields(tree) if field not in ("annotation", "returns")]
    nodes = [each for _, part in parts for each in (part if isinstance(part, list) else [part])]
    return [name for node in nodes if isinstance(node, ast.AST) for name in _named(node)]
