"""A package's weights by the model's names: of tied ones AOTInductor keeps one name, and none of what is not read."""

import json
from collections.abc import Collection, Hashable, Mapping
from zipfile import ZipFile

import torch
from torch import Tensor

RECORD = "MODEL_WEIGHTS"
"""Under which a package's own metadata have `recorded`."""


class PackageError(RuntimeError):
    """A package could not be made, read or run; says which, why, and what to do."""


def recorded(exported: torch.export.ExportedProgram) -> str:
    """JSON, for the package's metadata: the model's parameters and buffers as groups of names of one tensor each, and
    whether the program reads it."""
    groups: dict[Hashable, list[str]] = {}
    for name, tensor in {**exported.state_dict, **exported.constants}.items():
        if isinstance(tensor, Tensor):
            groups.setdefault(_same(tensor), []).append(name)
    signature = exported.graph_signature
    named = signature.inputs_to_parameters | signature.inputs_to_buffers | signature.inputs_to_lifted_tensor_constants
    read = {
        named[node.name] for node in exported.graph.find_nodes(op="placeholder") if node.name in named and node.users
    }
    return json.dumps([[names, not read.isdisjoint(names)] for names in groups.values()])


def _same(tensor: Tensor) -> Hashable:
    """By what Inductor, too, takes two weights for one."""
    memory = tensor.untyped_storage()._cdata
    return memory, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _groups(file: object) -> list[tuple[list[str], bool]]:
    with ZipFile(file) as zipped:
        said = (json.loads(zipped.read(one)) for one in zipped.namelist() if one.endswith("wrapper_metadata.json"))
        return [(names, read) for names, read in json.loads(next(said, {}).get(RECORD, "[]"))]


def matched(file: object, wanted: Collection[str], weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights by the names that the package has for them. PackageError as `package.updated` says."""
    groups = _groups(file)
    names_of = {name: names for names, _ in groups for name in names}
    given = {own: [name for name in names_of.get(own, [own]) if name in weights] for own in wanted}
    if missing := sorted(own for own, names in given.items() if not names):
        raise PackageError(f"the package needs {', '.join(missing[:3])} and {len(missing)} in all that are not given")
    unread = {name for names, read in groups if not read for name in names}
    if others := sorted(set(weights) - {name for names in given.values() for name in names} - unread):
        raise PackageError(_not_there(others, set(names_of)))
    for names in given.values():
        _agree(names, weights)
    return {own: weights[names[0]] for own, names in given.items()}


def _not_there(others: list[str], known: Collection[str]) -> str:
    inlined = [name for name in others if name in known]
    rule = (
        "Inductor wrote what it knew of them into the code (tensors of up to 8 numbers), where they stay as they were: "
        "compile the package again, or leave out what has not changed"
        if inlined
        else "the model that was packaged has none of that name: leave it out, or package the model that has it"
    )
    return f"{', '.join((inlined or others)[:3])}: not among the package's weights. {rule}"


def _agree(names: list[str], weights: Mapping[str, Tensor]) -> None:
    first = weights[names[0]]
    for name in names[1:]:
        other = weights[name]
        if _same(other) != _same(first) and not torch.equal(other, first):
            raise PackageError(
                f"{names[0]} and {name} are one tensor in the package, since the packaged model ties them, and two "
                "that differ are given: give one of them, or package a model in which they are not tied"
            )
