"""Is what a compiled step computes right? Results, gradients and what it changes, in units of measured rounding.

from compile_lab.judge import gradients
print(gradients(model, batch))
"""

from ..doors import on_demand

__all__ = ["Judged", "StageAtFault", "Verdict", "climbed", "gradients", "stage_at_fault"]
__getattr__ = on_demand(
    __name__,
    Judged="judging",
    Verdict="judging",
    gradients="judging",
    StageAtFault="stages",
    climbed="stages",
    stage_at_fault="stages",
)
