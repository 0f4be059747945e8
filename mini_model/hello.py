"""Ranks say hello: torchrun --nproc-per-node 4 -m mini_model.hello"""

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")  # torchrun told each process its rank and where to meet
    rank, size = dist.get_rank(), dist.get_world_size()
    total = torch.tensor(rank)
    dist.all_reduce(total)  # every rank gives its number, and every rank has the sum
    line = f"hello from rank {rank} of {size}: our ranks add up to {total}\n"
    print(line, end="", flush=True)  # in one piece: another rank's may come in between
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
