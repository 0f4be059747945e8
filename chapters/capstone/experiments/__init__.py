"""What is measured for this room: a module named after the recording's JSON file, or one that several share."""

from ...experiment import Experiment


def _more_seeds(answers: str, seeds: range, *rungs: str) -> Experiment:
    """``capstone_losses`` of these rungs and seeds; 27 seconds each on an H200."""
    options = {"rungs": rungs, "seeds": tuple(seeds)}
    return Experiment(answers, 30 * len(seeds) * len(rungs), in_bf16=True, module="capstone_losses", options=options)


EXPERIMENTS = {
    "capstone_peers": Experiment(
        "a peer's GPT-2 eager, compiled, tuned, in float8, with Liger's kernels, and the step by hand",
        670,
        in_bf16=True,
    ),
    "capstone": Experiment(
        "GPT-2 124M's training step, rung by rung, and a peer's model in the same run", 560, in_bf16=True
    ),
    "capstone_options": Experiment(
        "what else the compiler offers to the capstone's step: options, other forms, tuning", 500, in_bf16=True
    ),
    "capstone_sizes": Experiment(
        "the ladder's last rungs at other batches and with larger models, each predicted first", 1200, in_bf16=True
    ),
    "capstone_peer_losses": Experiment(
        "do a peer's float8 and Liger's kernels train as the peer does? and Liger's kernels in eager mode",
        400,
        in_bf16=True,
    ),
    "capstone_hand": Experiment(
        "what more a schedule by hand can have of its matmuls: epilogues, tuning, the head in fp8", 300, in_bf16=True
    ),
    "capstone_foretold": Experiment(
        "the capstone on 2, 8 and 1,024 GPUs, predicted from other recordings", 5, on_cpu=True
    ),
    "capstone_losses": Experiment(
        "is training in fp8 the same training? long runs on text, three seeds of each", 420, in_bf16=True
    ),
    "capstone_seeds": _more_seeds("the same with six more seeds of two rungs", range(3, 9), "hand", "all fp8"),
    "capstone_head_seeds": _more_seeds("the same with the head's gradients in fp8, nine seeds", range(9), "fp8 + head"),
    "capstone_short_seeds": _more_seeds("the same with short sums alone, nine seeds", range(9), "fp8, short sums"),
}
