"""What is measured for this room: one module a recording, named after its JSON file."""

from ...experiment import Experiment

EXPERIMENTS = {
    "architectures": Experiment(
        "fifty architectures: does each get its whole report, how soon, is its peak the allocator's", 1500, on_cpu=True
    ),
    "collectives": Experiment("all-reduce, all-gather, reduce-scatter, send between 2 to 8 GPUs", 90),
    "machine": Experiment("copy bandwidth and matrix rates of this GPU", 15),
    "overlap": Experiment("communication hidden and exposed, predicted first: DDP and FSDP2 on 2, 4 and 8 GPUs", 250),
    "overlap_compiled": Experiment(
        "one step under compiled DDP, SimpleFSDP with and without buckets, and FSDP2 eager and compiled",
        480,
        in_bf16=True,
    ),
    "patterns": Experiment("step time and peak memory of each sharding pattern on 2 to 8 GPUs, predicted first", 180),
    "timeline": Experiment("when the host launches and when the GPU computes, kernel by kernel, in three modes", 40),
}
