"""The instruments that the chapters of *The Compiled Training Step* look through.

Each module is one stage of the road from Python to a kernel. None is imported here: a notebook says what it uses. Ten
to begin with (``help`` of each has an example):

- ``from compile_lab.preflight import preflight``: what can this machine run?
- ``from compile_lab.report import report``: what becomes of my model's training step?
- ``from compile_lab.judge import gradients``: is what the compiled step computes right?
- ``from compile_lab.dynamo import trace``: where does the graph break?
- ``from compile_lab.dynamo import would_recompile``: will this call compile again, and which guard says so?
- ``from compile_lab.aot import training_graphs``: what is the joint graph, and what is saved for the backward?
- ``from compile_lab.inductor import generated_code``: which kernels does Inductor write, also for a GPU elsewhere?
- ``from compile_lab.virtual_gpu import assemble``: how many registers does a kernel take on a chip?
- ``from compile_lab.memory import lifetimes``: which tensors live when, and where is the peak?
- ``from compile_lab.modes import measure``: what does a compile mode cost, and what does it give?
"""
