"""What the symbols of an estimate were computed from, down to the dimensions of the model."""

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from tuner.memory.estimate import estimate
from tuner.memory.layer.attention import attention_saved_bytes, linear_attention_saved_bytes
from tuner.memory.layer.mlp import mlp_saved_bytes
from tuner.memory.layer.norms import norms_saved_bytes
from tuner.memory.ledger.recorded_numbers import (
    Derivation,
    RecordedNumber,
    derivation,
    recorded_model,
    recorded_workload,
)
from tuner.memory.ledger.stated_terms import path_of
from tuner.memory.ledger.symbols import MEANINGS, meaning
from tuner.memory.ledger.terms import Term
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine, Workload

Entry = tuple[str, float]
"""A symbol and its number."""


class Addend(Struct, frozen=True, kw_only=True):
    """An addend of a number that is itself a sum."""

    name: str
    derivation: Derivation
    source: str  # the deriving function

    @property
    def number(self) -> int:
        """How much it adds."""
        return self.derivation.value

    @property
    def formula(self) -> str:
        """What the number was computed from."""
        return self.derivation.formula


class Symbol(Struct, frozen=True, kw_only=True):
    """A symbol of the formulas with one of the numbers it stands for."""

    name: str
    number: float
    meaning: str
    derivation: Derivation | None  # None for what comes straight from the job
    parts: tuple[Addend, ...]

    @property
    def formula(
        self,
    ) -> Annotated[str, Meta(description="what the number was computed from; empty where it is given")]:
        """The formula behind the number."""
        return "" if self.derivation is None else self.derivation.formula

    @property
    def symbols(
        self,
    ) -> Annotated[tuple[tuple[str, int], ...], Meta(description="numbers by their names in the formula")]:
        """The symbols of the formula."""
        return () if self.derivation is None else self.derivation.symbols


def symbols(workload: Workload, terms: Iterable[Term]) -> tuple[Symbol, ...]:
    """The symbols of some terms of an estimate, and those that they were computed from, in a fixed order."""
    derived, parts = derivations(workload), layer_parts(workload)
    by_meaning: dict[tuple[str, float, str], Symbol] = {}

    def add(entry: Entry, source: str) -> None:
        name, number = entry
        says = meaning(name, source)
        by_meaning[name, number, says] = Symbol(
            name=name,
            number=number,
            meaning=says,
            derivation=derived.get(entry),
            parts=parts.get(entry, ()),
        )

    for term in terms:
        for entry in term.symbols:
            add(entry, term.source)
            if entry in derived:
                for dimension in derived[entry].symbols:
                    add(dimension, "")
    ranks = {name: rank for rank, name in enumerate(MEANINGS)}
    return tuple(sorted(by_meaning.values(), key=lambda symbol: ranks.get(symbol.name, len(ranks))))


def derivations(workload: Workload) -> Mapping[Entry, Derivation]:
    """The formula behind each symbol of the estimate's terms.

    The estimate is made once more, of models whose dimensions record what is done with them.
    Symbols that come straight from the job, such as tokens, have no entry.
    """
    formulas: dict[Entry, Derivation] = {}
    recorded_estimate = estimate(recorded_workload(workload))
    terms = [term for phase in recorded_estimate.phases for moment in phase.moments for term in moment.terms]
    for term in (*terms, *recorded_estimate.host_terms):
        for name, number in term.symbols:
            if isinstance(number, RecordedNumber) and (name, int(number)) not in formulas:
                derived = number.derivation()
                if derived.symbols and derived.formula != name:
                    formulas[name, int(number)] = derived
    return formulas


def layer_parts(workload: Workload) -> Mapping[Entry, tuple[Addend, ...]]:
    """What a layer's saved bytes per token, ``a_l``, add up from: norms, attention, MLP."""
    parts_of: dict[Entry, tuple[Addend, ...]] = {}
    models = [(workload.model, workload.actor.engine)]
    if workload.critic is not None:
        models.append((workload.critic.model, workload.critic.engine))
    for model, engine in models:
        if engine.backend is Backend.MEGATRON or model.traced is not None:
            continue
        for layer in {model.kind(i): i for i in range(model.layers)}.values():
            parts = _parts(recorded_model(model), engine, layer)
            parts_of["a_l", sum(part.derivation.value for part in parts)] = parts
    return parts_of


def _parts(model: ModelShape, engine: Engine, layer: int) -> tuple[Addend, ...]:
    mixer = linear_attention_saved_bytes if model.is_linear(layer) else attention_saved_bytes
    norms = norms_saved_bytes(model, engine)
    return (
        Addend(name="norms", derivation=derivation(norms), source=path_of(norms_saved_bytes)),
        Addend(
            name="attention",
            derivation=derivation(mixer(model, engine)),
            source=path_of(mixer),
        ),
        Addend(
            name="MLP",
            derivation=derivation(mlp_saved_bytes(model, engine, layer)),
            source=path_of(mlp_saved_bytes),
        ),
    )
