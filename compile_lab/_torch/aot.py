"""Private names of AOTAutograd."""

import types

import torch
import torch._functorch.config

functorch_config = torch._functorch.config


def aot_pieces() -> types.SimpleNamespace:
    """AOTAutograd as a backend, its two partitioners, and what Inductor does to a joint graph before them: its
    decompositions and its passes. ``cut_module`` holds the ``minimum_cut`` with which the one partitioner cuts its
    network: networkx, and from torch 2.15 on the partitioner's own. ``knapsack`` names the function of
    ``partitioners`` that solves a memory budget's. Imported on first use, it takes a second or two.
    """
    import networkx
    from torch._dynamo.backends import common, debugging
    from torch._functorch import partitioners
    from torch._guards import detect_fake_mode
    from torch._inductor import decomposition
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.virtualized import V

    def joint_graph_passes(joint: torch.fx.GraphModule) -> None:
        values = [node.meta.get("val") for node in joint.graph.find_nodes(op="placeholder")]
        with V.set_fake_mode(detect_fake_mode(values)):  # without it, a graph that draws random numbers fails
            joint_graph.joint_graph_passes(joint)

    return types.SimpleNamespace(
        aot_autograd=common.aot_autograd,
        boxed_nop=debugging.boxed_nop,
        default_partition=partitioners.default_partition,
        min_cut_partition=partitioners.min_cut_rematerialization_partition,
        cut_module=partitioners if hasattr(partitioners, "minimum_cut") else networkx,
        partitioners=partitioners,
        knapsack="_optimize_runtime_with_given_memory",
        op_types=partitioners.get_default_op_list,
        partitioner_log=partitioners.log,
        decompositions=decomposition.select_decomp_table,
        joint_graph_passes=joint_graph_passes,
    )
