"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "compile_gains": Experiment("cases in which compiling helps much or little; CUDA graphs", 110, in_bf16=True),
    "kept_results": Experiment("a CUDA graph's result, kept while the graph is replayed", 30),
    "modes": Experiment(
        "every mode of torch.compile on MiniGPT and GPT-2: compile time, calls, launches, host", 560, in_bf16=True
    ),
}
