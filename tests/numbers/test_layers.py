"""Bytes per token of a layer of each kind of model under many engines, function by function, as today.

An estimate takes the largest of many moments, so that most numbers of a layer show in few jobs. One line is
an engine and a layer, with the numbers in the order of the first line. ``UPDATE_GOLDEN=1 pytest
tests/numbers`` writes them anew.
"""

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import astuple, replace

from tests.cli.golden import expect
from tests.numbers.test_architectures import MODELS
from tests.numbers.test_numbers import FOLDER
from tests.workloads import fsdp_engine, megatron_engine
from tuner.dtypes import DType
from tuner.memory.fsdp import units
from tuner.memory.fsdp.order import UnitOrder
from tuner.memory.layer import activations, attention, backward_stages, checkpointing, experts, mlp, norms
from tuner.memory.ledger.terms import Term
from tuner.memory.megatron import grid, layers, states
from tuner.memory.vision import activations as vision
from tuner.model_shape import ModelShape
from tuner.models import find_model
from tuner.workload import Backend, Checkpointing, Engine, Lora

Changes = dict[str, Any]
NONE: Changes = {"checkpointing": Checkpointing.NONE}
LORA: Changes = {"lora": Lora(rank=16, parameters=10_000_001)}
FUSED: Changes = {"fused_layers": True}
FSDP_CHANGES: dict[str, Changes] = {
    "fsdp2": {},
    "fsdp1": {"backend": Backend.FSDP},
    "kept": NONE,
    "fused": FUSED,
    "fused-kept": FUSED | NONE,
    "lora": LORA,
    "lora-fused": LORA | FUSED,
    "lora-kept": LORA | NONE,
    "padded": {"packed": False},
    "repeated": {"repeats_keys": True, "stored_dtype": DType.BFLOAT16},
    "frozen": {"frozen_tower": True, "separate_embedding_units": True},
    "idle": {"idle_tower": True, "forward_prefetch": True, "keeps_root": True},
    "float32": {"compute_dtype": DType.FLOAT32},
}
FSDP = {name: replace(fsdp_engine(gpus=8), **changes) for name, changes in FSDP_CHANGES.items()}
FSDP["ulysses"] = fsdp_engine(gpus=8, ulysses=4)
FSDP["offloaded"] = replace(FSDP["ulysses"], activation_offload=True, streamed_offload=True)
GRID = megatron_engine(gpus=32, tensor=2, pipeline=2, context=2, expert=4)
MEGATRON_CHANGES: dict[str, Changes] = {
    "megatron": {},
    "kept": NONE,
    "selective": {"checkpointing": Checkpointing.SELECTIVE},
    "lora": LORA,
    "rotated": {"fused_rotary": True, "divides_sequence": False},
    "rotated-each": {"rotates_each": True, "fused_weight_gradients": True},
    "padded": {"packed": False, "distributed_optimizer": False},
}
MEGATRON = {name: replace(GRID, **changes) for name, changes in MEGATRON_CHANGES.items()}
OF_FSDP = (activations, attention, backward_stages, checkpointing, experts, mlp, norms, units)
OF_MEGATRON = (grid, layers, states)


def functions(modules: tuple[ModuleType, ...]) -> list[Callable[..., Any]]:
    """What the modules compute of a model and an engine, or of a tower."""
    public = [
        value
        for module in modules
        for name, value in vars(module).items()
        if callable(value)
        and not name.startswith("_")
        and getattr(value, "__module__", "") == module.__name__
    ]
    known = {"model", "engine", "layer", "moe", "latent", "tower"}
    return [
        function
        for function in public
        if not isinstance(function, type)
        and function is not activations.layer_kinds
        and {*inspect.signature(function).parameters} - {"frozen"} <= known
    ]


def numbers(model: ModelShape, engine: Engine, layer: int, wanted: list[Callable[..., Any]]) -> Iterator[str]:
    """The number of each function; a hyphen where the model has not what it is about."""
    given = {"model": model, "engine": engine, "layer": layer, "moe": model.moe, "latent": model.latent}
    given["tower"] = model.tower
    for function in wanted:
        arguments = {name: given[name] for name in inspect.signature(function).parameters if name in given}
        linear = "linear" in function.__name__ and not model.is_linear(layer)
        if None in arguments.values() or linear or ("experts" in function.__name__ and model.moe is None):
            yield "-"
        else:
            yield _short(function(**arguments))
            if "frozen" in inspect.signature(function).parameters:
                yield f"or {_short(function(**arguments, frozen=True))}"


def _short(value: Any) -> str:
    if isinstance(value, Term):
        return str(value.bytes)
    if isinstance(value, Struct):
        return _short(astuple(value))
    if isinstance(value, tuple):
        return "(" + " ".join(map(_short, value)) + ")"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def order(model: ModelShape, engine: Engine, layer: int) -> Iterator[str]:
    """The units around a layer in the order of its passes."""
    units_around = UnitOrder(model, engine)
    for name in ("head", "embedding", "last", "tower_block", "tower_root", "tower"):
        yield str(getattr(units_around, name))
    for name in ("before", "above", "below", "waiting", "whole_parameters"):
        yield str(getattr(units_around, name)(layer))
    yield str(units_around.trained(units_around.head))
    yield f"{units_around.one_of_each_kind} {units_around.extremes}"


def lines(model: ModelShape, engines: dict[str, Engine], modules: tuple[ModuleType, ...]) -> Iterator[str]:
    wanted = functions(modules)
    yield "# " + " ".join(function.__name__ for function in wanted)
    kinds = activations.layer_kinds(model)
    chosen = sorted({*(kinds.index(kind) for kind in kinds), model.layers - 1})
    for name, engine in engines.items():
        for layer in chosen:
            yield f"{name} {layer}: " + " ".join(numbers(model, engine, layer, wanted))
            if modules is OF_FSDP:
                yield f"{name} {layer} units: " + " ".join(order(model, engine, layer))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", MODELS)
def test_layers(kind: str) -> None:
    model = find_model(MODELS[kind])
    text = [*lines(model, FSDP, OF_FSDP), *lines(model, MEGATRON, OF_MEGATRON)]
    if model.tower is not None:
        text += lines(model, FSDP, (vision,))
    expect(f"layers-{kind}.txt", "\n".join(text), folder=FOLDER)
