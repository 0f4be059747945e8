"""Steps on sequences: transformers, recurrent networks, speech, trees."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .parts import Block
from .registry import step

WORDS, LENGTH, DIM = 512, 32, 64


def words(*shape: int) -> Tensor:
    return torch.randint(3, WORDS, shape)


class GPT(nn.Module):
    """A decoder whose head is its embedding."""

    def __init__(self, dim: int = DIM, layers: int = 2) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(WORDS, dim), nn.Embedding(2 * LENGTH, dim)
        self.blocks = nn.ModuleList(Block(dim, causal=True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, WORDS, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class NextWord(nn.Module):
    """The loss of a language model on its own input, moved by one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.model(tokens[:, :-1])
        return F.cross_entropy(logits.reshape(-1, logits.size(-1)), tokens[:, 1:].reshape(-1))


@step("tied embeddings", "one parameter as the embedding and the head, decayed and undecayed parameters in two groups")
def _tied():
    model = NextWord(GPT())
    decayed = [each for each in model.parameters() if each.ndim >= 2]
    others = [each for each in model.parameters() if each.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return model, words(4, LENGTH + 1), torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95))


class PolicyGradient(nn.Module):
    """The model goes on with each prompt by itself; what earns more than the batch's mean becomes likelier."""

    def __init__(self, new: int = 12, end: int = 0) -> None:
        super().__init__()
        self.policy, self.new, self.end = GPT(), new, end

    @torch.no_grad()
    def generate(self, tokens: Tensor) -> Tensor:
        self.policy.eval()
        finished = torch.zeros(tokens.size(0), dtype=torch.bool, device=tokens.device)
        for _ in range(self.new):
            chances = F.softmax(self.policy(tokens)[:, -1], dim=-1)
            following = torch.multinomial(chances, num_samples=1).squeeze(1)
            following[finished] = self.end
            finished |= following == self.end
            tokens = torch.cat([tokens, following[:, None]], dim=1)
            if finished.all():
                break
        self.policy.train()
        return tokens

    def forward(self, prompts: Tensor) -> Tensor:
        tokens = self.generate(prompts)
        answers = tokens[:, prompts.size(1) :]
        rewards = (answers % 2 == 0).float().mean(1)
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
        logits = self.policy(tokens[:, :-1])[:, prompts.size(1) - 1 :]
        chosen = F.log_softmax(logits, dim=-1).gather(2, answers[..., None]).squeeze(2)
        said = (answers != self.end).float()
        return -((chosen * said).sum(1) * advantages).mean()


@step("policy gradient", "sampling in a loop without gradients before the loss, and eval mode in between")
def _policy_gradient():
    return PolicyGradient(), words(8, 16)


class SkipGram(nn.Module):
    """Words by their neighbours, against words drawn by chance (Mikolov et al. 2013)."""

    def __init__(self, count: int = 5000, dim: int = 64, negatives: int = 5) -> None:
        super().__init__()
        self.negatives = negatives
        self.centre, self.context = nn.Embedding(count, dim, sparse=True), nn.Embedding(count, dim, sparse=True)
        self.frequency = torch.rand(count) ** 0.75

    def forward(self, centre: Tensor, context: Tensor) -> Tensor:
        drawn = torch.multinomial(self.frequency, len(centre) * self.negatives, replacement=True)
        drawn = drawn.view(len(centre), -1).to(centre.device)
        v = self.centre(centre)
        near = F.logsigmoid((v * self.context(context)).sum(-1))
        far = F.logsigmoid(-(self.context(drawn) @ v.unsqueeze(2)).squeeze(2)).sum(1)
        return -(near + far).mean()


@step("sparse embeddings", "gradients that are sparse tensors, with SparseAdam, and a tensor that is no buffer")
def _sparse_embeddings():
    model = SkipGram()
    batch = {"centre": torch.randint(0, 5000, (256,)), "context": torch.randint(0, 5000, (256,))}
    return model, batch, torch.optim.SparseAdam(list(model.parameters()), lr=1e-3)


class PackedTagger(nn.Module):
    def __init__(self, tags: int = 9, hidden: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, DIM, padding_idx=0)
        self.lstm = nn.LSTM(DIM, hidden, num_layers=2, batch_first=True, bidirectional=True, dropout=0.2)
        self.tags = nn.Linear(2 * hidden, tags)

    def forward(self, tokens: Tensor, lengths: Tensor, tags: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.embedding(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=tokens.size(1))
        return F.cross_entropy(self.tags(hidden).view(-1, 9), tags.view(-1), ignore_index=-100)


@step("packed LSTM", "sentences of several lengths packed for a recurrent network")
def _packed_lstm():
    lengths = torch.tensor([20, 7, 13, 18, 3, 11, 20, 9])
    beyond = torch.arange(20)[None] >= lengths[:, None]
    tokens, tags = words(8, 20).masked_fill(beyond, 0), torch.randint(0, 9, (8, 20)).masked_fill(beyond, -100)
    return PackedTagger(), {"tokens": tokens, "lengths": lengths, "tags": tags}


class Characters(nn.Module):
    """A recurrent network that goes on where the last batch ended, its gradients cut off there."""

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.embedding, self.gru = nn.Embedding(WORDS, DIM), nn.GRU(DIM, hidden, num_layers=2, dropout=0.1)
        self.head, self.hidden = nn.Linear(hidden, WORDS), None

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        if self.hidden is not None and self.hidden.size(1) != tokens.size(1):
            self.hidden = None
        out, hidden = self.gru(self.embedding(tokens), self.hidden)
        self.hidden = hidden.detach()
        return F.cross_entropy(self.head(out).flatten(0, 1), targets.flatten())


@step("GRU", "a hidden state that stays from one call to the next")
def _gru():
    return Characters(), (words(24, 8), words(24, 8))


class Speech(nn.Module):
    """Convolutions over time, a recurrent network, and any alignment (Graves et al. 2006)."""

    def __init__(self, mels: int = 40, letters: int = 29) -> None:
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(1, 16, (11, 5), stride=(2, 2), padding=(5, 2)),
            nn.BatchNorm2d(16),
            nn.Hardtanh(0, 20, inplace=True),
        )
        self.gru = nn.GRU(16 * mels // 2, 96, bidirectional=True)
        self.head = nn.Linear(192, letters)

    def forward(self, sound: Tensor, sound_lengths: Tensor, letters: Tensor, letter_lengths: Tensor) -> Tensor:
        h = self.front(sound.unsqueeze(1))
        h = h.permute(3, 0, 1, 2).flatten(2)
        scores = self.head(self.gru(h)[0]).log_softmax(-1)
        lengths = torch.div(sound_lengths + 1, 2, rounding_mode="floor").clamp(max=scores.size(0))
        return F.ctc_loss(scores, letters, lengths, letter_lengths, blank=0, zero_infinity=True)


@step("CTC", "a loss over alignments, targets of several lengths in one row")
def _ctc():
    letter_lengths = torch.tensor([12, 9, 15, 7])
    letters = torch.randint(1, 29, (int(letter_lengths.sum()),))
    return Speech(), (torch.randn(4, 40, 100), torch.tensor([100, 83, 96, 71]), letters, letter_lengths)


class Sinusoids(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        position = torch.arange(x.size(1)).unsqueeze(1)
        rate = torch.exp(torch.arange(0, x.size(2), 2) * (-math.log(10000.0) / x.size(2)))
        encoded = torch.zeros(x.size(1), x.size(2))
        encoded[:, 0::2] = torch.sin(position * rate)
        encoded[:, 1::2] = torch.cos(position * rate)
        return x + encoded


class Classifier(nn.Module):
    """A transformer over words that is told their places by sines (Vaswani et al. 2017), made anew at each call."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(WORDS, DIM), Sinusoids()
        self.blocks, self.head = nn.Sequential(Block(DIM), Block(DIM)), nn.Linear(DIM, classes)

    def forward(self, tokens: Tensor, labels: Tensor | None = None) -> tuple[Tensor, ...]:
        logits = self.head(self.blocks(self.positions(self.embedding(tokens))).mean(1))
        return (logits,) if labels is None else (F.cross_entropy(logits, labels), logits)


@step("sinusoidal positions", "positions made on the CPU in the forward, a tuple that begins with the loss")
def _sinusoidal():
    return Classifier(), {"tokens": words(8, LENGTH), "labels": torch.randint(0, 4, (8,))}


Tree = int | tuple[Any, Any]


class TreeLSTM(nn.Module):
    """A sentence's meaning, composed along its tree (Tai et al. 2015)."""

    def __init__(self, hidden: int = 64, classes: int = 5) -> None:
        super().__init__()
        self.embedding, self.leaf = nn.Embedding(WORDS, DIM), nn.Linear(DIM, 2 * hidden)
        self.compose, self.head = nn.Linear(2 * hidden, 5 * hidden), nn.Linear(hidden, classes)

    def node(self, tree: Tree, sentence: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(tree, int):
            h, c = self.leaf(self.embedding(sentence[tree])).chunk(2)
            return torch.tanh(h), c
        (left, left_cell), (right, right_cell) = (self.node(each, sentence) for each in tree)
        i, f, g, o, u = self.compose(torch.cat([left, right])).chunk(5)
        cell = i.sigmoid() * u.tanh() + f.sigmoid() * left_cell + g.sigmoid() * right_cell
        return o.sigmoid() * cell.tanh(), cell

    def forward(self, sentences: Tensor, trees: list[Tree], labels: list[int]) -> Tensor:
        roots = [self.node(tree, sentence)[0] for tree, sentence in zip(trees, sentences, strict=True)]
        return F.cross_entropy(self.head(torch.stack(roots)), torch.tensor(labels))


@step("TreeLSTM", "recursion along trees of tuples, labels in a Python list")
def _tree_lstm():
    trees = [((0, 1), (2, (3, 4))), (0, (1, ((2, 3), 4))), ((((0, 1), 2), 3), 4)]
    return TreeLSTM(), {"sentences": words(3, 5), "trees": trees, "labels": [0, 3, 4]}
