"""Other weights for a package, by the model's names: tied ones, such as nothing reads, and such as it does not have."""

import copy
import json
from zipfile import ZipFile

import pytest
import torch
from torch import nn

from chapters.inference.package import package, updated
from chapters.inference.package_weights import RECORD, PackageError, matched, recorded

X = torch.tensor([1, 2])


class Tied(nn.Module):
    """Three names of one weight, one in a part that is there twice; a bias of two numbers; a buffer of no use."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.e, self.h, self.last = nn.Embedding(40, 40), nn.Linear(40, 40), nn.Linear(40, 2)
        self.h.weight = self.e.weight
        self.again = self.h
        self.register_buffer("unread", torch.rand(50))
        self.eval()

    def forward(self, tokens):
        return self.last(self.again(self.e(tokens)))


@pytest.fixture(scope="module")
def file():
    return package(Tied(), X).file


def other(**changes):
    """Another model's weights, with the packaged one's bias of two numbers left out."""
    model = Tied(1)
    model.last.bias = Tied().last.bias
    weights = {name: each for name, each in model.state_dict().items() if name != "last.bias"}
    return model, {**weights, **changes}


def answers_as(model, file, weights):
    torch.testing.assert_close(updated(file, weights, X), model(X))


@pytest.mark.slow
def test_tied_weights_are_updated_by_all_their_names_or_any_one(file):
    model, weights = other()
    answers_as(model, file, weights)
    answers_as(model, file, {name: each.clone() for name, each in weights.items()})
    tied = [name for name in weights if name in ("e.weight", "h.weight", "again.weight")]
    biases = ("h.bias", "again.bias")
    assert len(tied) == 3
    for kept in tied:
        left = {name: each for name, each in weights.items() if name == kept or name not in (*tied, biases[0])}
        answers_as(model, file, left)
    answers_as(model, file, {name: each for name, each in model.named_parameters() if name != "last.bias"})


@pytest.mark.slow
def test_what_nothing_reads_may_be_left_out(file):
    model, weights = other()
    weights.pop("unread")
    answers_as(model, file, weights)


OWN = ("again.weight", "again.bias", "last.weight")


@pytest.fixture
def labelled(tmp_path):
    """What `matched` reads of a package: the model's record."""
    file = tmp_path / "labelled.pt2"
    with ZipFile(file, "w") as zipped:
        record = recorded(torch.export.export(Tied(), (X,)))
        zipped.writestr("model/wrapper_metadata.json", json.dumps({RECORD: record}))
    return file


def test_any_name_of_a_tied_weight_is_the_packages(labelled):
    _, weights = other()
    for left in (weights, {name: each for name, each in weights.items() if not name.startswith(("h.", "again.w"))}):
        found = matched(labelled, OWN, left)
        assert set(found) == set(OWN) and all(torch.equal(each, weights[name]) for name, each in found.items())


def test_tied_weights_that_differ_are_refused_by_name(labelled):
    apart = copy.deepcopy(other()[1])
    apart["h.weight"] = apart["again.weight"] = apart["h.weight"] + 1
    with pytest.raises(
        PackageError, match=r"e\.weight.* are one tensor in the package, .*: give one of them, or package"
    ):
        matched(labelled, OWN, apart)
    apart["h.weight"] = apart["again.weight"] = apart["e.weight"][:20]
    with pytest.raises(PackageError, match="are one tensor in the package"):
        matched(labelled, OWN, apart)


def test_what_is_missing_compiled_in_or_unknown_is_told_apart(labelled):
    _, weights = other()
    none = {name: each for name, each in weights.items() if name not in ("e.weight", "h.weight", "again.weight")}
    with pytest.raises(PackageError, match=r"the package needs again\.weight and 1 in all that are not given"):
        matched(labelled, OWN, none)
    with pytest.raises(
        PackageError, match=r"^last\.bias: not among the package's weights\. Inductor wrote what it knew"
    ):
        matched(labelled, OWN, {**weights, "last.bias": torch.ones(2)})
    with pytest.raises(
        PackageError, match=r"^head\.weight: .*none of that name: leave it out, or package the model that"
    ):
        matched(labelled, OWN, {**weights, "head.weight": torch.ones(40, 40)})


@pytest.mark.slow
def test_a_view_of_another_weight_is_a_weight_of_its_own():
    class Viewed(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(40, 40))
            self.register_buffer("row", self.weight.detach()[3])

        def forward(self, x):
            return x @ self.weight + self.row

    made, x = package(Viewed().eval(), torch.ones(2, 40)), torch.rand(2, 40)
    weights = {"weight": torch.rand(40, 40), "row": torch.rand(40)}
    torch.testing.assert_close(updated(made.file, weights, x), x @ weights["weight"] + weights["row"])
