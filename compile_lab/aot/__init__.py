"""What is the joint graph, what is saved for the backward, and why?"""

from .training import Backend, as_graphs, training_graphs

__all__ = ["Backend", "as_graphs", "training_graphs"]
