"""Steps on sequences: transformers, recurrent networks, scans, experts, speech, trees."""

import math
import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .parts import Block, mlp
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


class LowRank(nn.Module):
    """A frozen linear layer and a trained difference of low rank (Hu et al. 2021)."""

    def __init__(self, base: nn.Linear, rank: int = 8, alpha: int = 16) -> None:
        super().__init__()
        self.base, self.scale, self.dropout = base, alpha / rank, nn.Dropout(0.05)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(rank))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.dropout(x) @ self.down.t() @ self.up.t() * self.scale


def with_low_rank(model: nn.Module, wanted: tuple[str, ...]) -> nn.Module:
    for parameter in model.parameters():
        parameter.requires_grad = False
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in wanted:
                setattr(module, name, LowRank(child))
    return model


@step("LoRA", "a frozen base with a trained difference, dropout in it")
def _lora():
    model = NextWord(with_low_rank(GPT(), ("qkv", "out")))
    return model, words(4, LENGTH + 1), torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)


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


class Distillation(nn.Module):
    """A small model learns from a large one (Hinton et al. 2015)."""

    def __init__(self, temperature: float = 2.0) -> None:
        super().__init__()
        self.student, self.teacher, self.temperature = GPT(layers=1), GPT(128), temperature
        self.teacher.eval()

    def train(self, mode: bool = True) -> "Distillation":
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            wanted = F.softmax(self.teacher(tokens[:, :-1]) / self.temperature, dim=-1)
        logits = self.student(tokens[:, :-1])
        soft = F.kl_div(F.log_softmax(logits / self.temperature, dim=-1), wanted, reduction="batchmean")
        hard = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])
        return {"loss": 0.5 * hard + 0.5 * self.temperature**2 * soft, "logits": logits}


@step("distillation", "a teacher without gradients, larger than the student that is trained")
def _distillation():
    model = Distillation()
    return model, words(4, LENGTH + 1), torch.optim.SGD(model.student.parameters(), lr=0.1, momentum=0.9)


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


class Encoder(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, DIM)
        self.lstm = nn.LSTM(DIM, hidden, batch_first=True)

    def forward(self, tokens: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        return self.lstm(self.embedding(tokens))


class Translator(nn.Module):
    """An encoder, and a decoder that looks back at it (Bahdanau et al. 2014) and is sometimes told the truth."""

    def __init__(self, hidden: int = 64, truth: float = 0.5) -> None:
        super().__init__()
        self.truth, self.encoder = truth, Encoder(hidden)
        self.embedding, self.cell = nn.Embedding(WORDS, DIM), nn.LSTMCell(DIM + hidden, hidden)
        self.query, self.key, self.energy = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 1)
        self.out = nn.Linear(hidden, WORDS)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, (h, c) = self.encoder(source)
        h, c, token, loss = h[-1], c[-1], target[:, 0], 0.0
        for at in range(1, target.size(1)):
            scores = self.energy(torch.tanh(self.query(h).unsqueeze(1) + self.key(memory)))
            context = (F.softmax(scores, dim=1) * memory).sum(1)
            h, c = self.cell(torch.cat([self.embedding(token), context], dim=1), (h, c))
            logits = self.out(h)
            loss += F.cross_entropy(logits, target[:, at])
            token = target[:, at] if random.random() < self.truth else logits.argmax(1)
        return loss / (target.size(1) - 1)


@step("LSTM translator", "an LSTM in a submodule, a decoder's loop, and Python's random numbers deciding in it")
def _lstm_translator():
    random.seed(0)
    return Translator(), (words(8, 16), words(8, 12))


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


class Translation(nn.Module):
    """torch's own encoder and decoder, with masks for what is padding and what is to come."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, DIM, padding_idx=0), nn.Embedding(WORDS, DIM, padding_idx=0)
        self.transformer = nn.Transformer(DIM, 4, 2, 2, 128, dropout=0.1, batch_first=True)
        self.head = nn.Linear(DIM, WORDS)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        given, wanted = target[:, :-1], target[:, 1:]
        hidden = self.transformer(
            self.source(source) * math.sqrt(DIM),
            self.target(given) * math.sqrt(DIM),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(given.size(1)),
            src_key_padding_mask=source == 0,
            tgt_key_padding_mask=given == 0,
            memory_key_padding_mask=source == 0,
        )
        return F.cross_entropy(self.head(hidden).transpose(1, 2), wanted, ignore_index=0, label_smoothing=0.1)


@step("nn.Transformer", "torch's own transformer with masks for padding, one of them floating and others not")
def _nn_transformer():
    source, target = words(4, 20), words(4, 17)
    source[1, 12:] = source[2, 15:] = 0
    target[1, 10:] = target[3, 13:] = 0
    return Translation(), {"source": source, "target": target}


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


class SelectiveScan(nn.Module):
    """A state whose update depends on the input, one step of time after the other (Gu and Dao 2023)."""

    def __init__(self, dim: int = DIM, state: int = 8, rank: int = 4) -> None:
        super().__init__()
        inner = 2 * dim
        self.state, self.rank = state, rank
        self.norm, self.into = nn.LayerNorm(dim), nn.Linear(dim, 2 * inner, bias=False)
        self.convolution = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.select, self.delta = nn.Linear(inner, rank + 2 * state, bias=False), nn.Linear(rank, inner)
        self.log_a = nn.Parameter(torch.arange(1, state + 1).float().repeat(inner, 1).log())
        self.skip, self.out = nn.Parameter(torch.ones(inner)), nn.Linear(inner, dim, bias=False)

    def forward(self, residual: Tensor) -> Tensor:
        x, gate = self.into(self.norm(residual)).chunk(2, dim=-1)
        x = F.silu(self.convolution(x.transpose(1, 2))[..., : x.size(1)].transpose(1, 2))
        delta, b, c = self.select(x).split([self.rank, self.state, self.state], dim=-1)
        delta, a = F.softplus(self.delta(delta)), -self.log_a.exp()
        h, ys = x.new_zeros(x.size(0), x.size(2), self.state), []
        for t in range(x.size(1)):
            h = torch.exp(delta[:, t, :, None] * a) * h + (delta[:, t] * x[:, t]).unsqueeze(-1) * b[:, t, None]
            ys.append((h * c[:, t, None]).sum(-1))
        y = torch.stack(ys, dim=1) + x * self.skip
        return residual + self.out(y * F.silu(gate))


class Mamba(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.layers = nn.Embedding(WORDS, DIM), nn.Sequential(SelectiveScan(), SelectiveScan())
        self.head = nn.Linear(DIM, WORDS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layers(self.tokens(tokens)))


@step("selective scan", "a Python loop over time in each layer")
def _selective_scan():
    return NextWord(Mamba()), words(2, 25)


class MinimalRecurrence(nn.Module):
    """A gated recurrence without a loop: sums along time, in logarithms (Feng et al. 2024)."""

    def __init__(self, dim: int = DIM) -> None:
        super().__init__()
        self.norm, self.both, self.out = nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        hidden, gate = self.both(self.norm(x)).chunk(2, dim=-1)
        keep, put = -F.softplus(gate), -F.softplus(-gate)
        value = put + torch.where(hidden >= 0, (F.relu(hidden) + 0.5).log(), -F.softplus(-hidden))
        so_far = torch.cumsum(keep, dim=1)
        return x + self.out((so_far + torch.logcumsumexp(value - so_far, dim=1)).exp())


@step("scan by cumsum", "a recurrence as sums along time")
def _cumsum_scan():
    layers = nn.Sequential(nn.Embedding(WORDS, DIM), MinimalRecurrence(), MinimalRecurrence(), nn.Linear(DIM, WORDS))
    return NextWord(layers), words(4, 65)


class RoutedExperts(nn.Module):
    """Each word goes to the two best of some experts (Jiang et al. 2024)."""

    def __init__(self, dim: int = DIM, experts: int = 4, best: int = 2) -> None:
        super().__init__()
        self.best, self.router = best, nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(mlp(dim, 128, dim, activation=nn.SiLU) for _ in range(experts))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = x.view(-1, x.size(-1))
        chances = F.softmax(self.router(flat), dim=1, dtype=torch.float)
        weights, chosen = torch.topk(chances, self.best, dim=-1)
        weights /= weights.sum(dim=-1, keepdim=True)
        return self.mixed(flat, weights, chosen).view_as(x), self.balance(chances, chosen)

    def mixed(self, flat: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        result = torch.zeros_like(flat)
        for at, expert in enumerate(self.experts):
            token, place = (chosen == at).nonzero(as_tuple=True)
            if token.numel() == 0:
                continue
            result.index_add_(0, token, expert(flat[token]) * weights[token, place, None])
        return result

    def balance(self, chances: Tensor, chosen: Tensor) -> Tensor:
        share = F.one_hot(chosen, len(self.experts)).float().mean((0, 1))
        return len(self.experts) * (share * chances.mean(0)).sum()


class CountedExperts(RoutedExperts):
    """The same, with words sorted by expert and cut by a list of counts."""

    def mixed(self, flat: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        order = chosen.view(-1).argsort()
        counts = chosen.view(-1).bincount(minlength=len(self.experts)).cpu().numpy().tolist()
        results, start = [], 0
        for expert, count in zip(self.experts, counts, strict=True):
            if count == 0:
                continue
            results.append(expert(flat[order[start : start + count] // self.best]))
            start += count
        back = torch.empty(len(order), flat.size(1)).type_as(flat)
        back[order] = torch.cat(results)
        return (back.view(*chosen.shape, -1) * weights[..., None]).sum(1)


class ExpertLanguage(nn.Module):
    def __init__(self, experts: type[RoutedExperts]) -> None:
        super().__init__()
        self.tokens, self.attention = nn.Embedding(WORDS, DIM), Block(DIM, causal=True)
        self.experts, self.head = experts(), nn.Linear(DIM, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.attention(self.tokens(tokens[:, :-1]))
        mixed, balance = self.experts(x)
        return F.cross_entropy(self.head(x + mixed).transpose(1, 2), tokens[:, 1:]) + 0.01 * balance


@step("experts by nonzero", "words found for each expert by nonzero, and added back by index")
def _experts_nonzero():
    return ExpertLanguage(RoutedExperts), words(4, LENGTH + 1)


@step("experts by counts", "words sorted by expert and cut by a Python list of counts")
def _experts_counts():
    return ExpertLanguage(CountedExperts), words(4, LENGTH + 1)


class HyperNetwork(nn.Module):
    """One network writes the weights of another, for each task (Ha et al. 2016)."""

    def __init__(self, tasks: int = 8) -> None:
        super().__init__()
        self.main = mlp(16, 32, 32, 4)
        self.tasks = nn.Embedding(tasks, 16)
        sizes = {name: each.numel() for name, each in self.main.named_parameters()}
        self.writers = nn.ModuleDict({name.replace(".", "_"): mlp(16, 64, size) for name, size in sizes.items()})

    def weights(self, task: Tensor) -> dict[str, Tensor]:
        code = self.tasks(task)
        return {
            name: each + 0.1 * self.writers[name.replace(".", "_")](code).view_as(each)
            for name, each in self.main.named_parameters()
        }

    def forward(self, tasks: Tensor, x: Tensor, y: Tensor) -> Tensor:
        losses = []
        for task, inputs, wanted in zip(tasks, x, y, strict=True):
            losses.append(F.mse_loss(functional_call(self.main, self.weights(task), (inputs,)), wanted))
        return torch.stack(losses).mean()


@step("hypernetwork", "weights that another network writes, put in by functional_call")
def _hypernetwork():
    return HyperNetwork(), (torch.tensor([0, 3, 5, 1]), torch.randn(4, 64, 16), torch.randn(4, 64, 4))


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
