"""Another's GPT, as nanoGPT's ``model.py`` defines it."""

import pytest

PEER = """
import torch
from torch import nn


class GPTConfig:
    def __init__(self, dropout, bias):
        pass


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.table, self.head = nn.Embedding(640, 8), nn.Linear(8, 640)

    def forward(self, tokens, targets):
        logits = self.head(self.table(tokens))
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def configure_optimizers(self, decay, lr, betas, device):
        return torch.optim.AdamW(self.parameters(), lr=lr, betas=betas, weight_decay=decay)
"""


@pytest.fixture(scope="session")
def peer(tmp_path_factory):
    """The file that ``--peer`` is given."""
    path = tmp_path_factory.mktemp("peer") / "model.py"
    path.write_text(PEER)
    return path
