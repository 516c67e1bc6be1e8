"""Terms of a forward pass under FSDP2, and what those of a backward pass are made with.

Sizes are those of :mod:`tuner.memory.fsdp.fsdp2_units`; what FSDP1 has as well comes from
:mod:`tuner.memory.fsdp.terms`. Here they get their names and their formulas.
"""

from collections.abc import Callable, Mapping
from functools import cached_property

from msgspec import Struct

from tuner.evidence import Evidence
from tuner.memory.fsdp import fsdp2_units, units
from tuner.memory.fsdp.fsdp2_units import Units
from tuner.memory.fsdp.terms import FsdpTerms
from tuner.memory.layer import activations
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.pass_terms import PassInput, term


class Fsdp2Terms(Struct, frozen=True, dict=True):
    """The terms of one pass that depend on the order in which FSDP2 gathers, reduces and frees."""

    given: PassInput

    @cached_property
    def shared(self) -> FsdpTerms:
        """The terms that FSDP1 has as well."""
        return FsdpTerms(self.given)

    @cached_property
    def units(self) -> Units:
        """What FSDP2 gathers and reduces at once."""
        return Units(self.given.model, self.given.engine)

    @property
    def kinds(self) -> tuple[tuple[object, ...], ...]:
        """The kind of every layer."""
        return activations.layer_kinds(self.given.model)

    @cached_property
    def one_of_each_kind(self) -> tuple[int, ...]:
        """The first layer of every kind."""
        return tuple(self.kinds.index(kind) for kind in dict.fromkeys(self.kinds))

    @cached_property
    def numbers(self) -> dict[str, float]:
        """The symbols of the formulas that are the same for every unit."""
        return {
            **self.shared.numbers,
            "U_r": self.units.head,
            "U_e": self.units.embedding,
        }

    def sized(
        self,
        name: str,
        formula: str,
        source: Callable[..., int],
        size: int,
        *,
        item: Item = Item.UNSHARDED,
        units: Mapping[str, int],
    ) -> Term:
        """A term of one of ``source``; ``units`` has the symbols that differ by unit."""
        where = f"{source.__module__.removeprefix('tuner.')}.{source.__name__}"
        numbers = {**self.numbers, **units}
        return term(item, name, size, formula, Evidence.EXACT, symbols=numbers, source=where)

    def whole(self, name: str, symbol: str, count: int) -> Term:
        """Weights or gradients of so many parameters."""
        size = fsdp2_units.whole_bytes(count, self.given.engine)
        return self.sized(name, f"b_c {symbol}", fsdp2_units.whole_bytes, size, units={symbol: count})

    def activation(self, name: str, symbol: str, each: int, source: str) -> Term:
        """Activations inside a layer, of so many bytes per token."""
        tokens, evidence = self.given.tokens, activations.layer_evidence(self.given.model)
        numbers = {"T": tokens, symbol: each}
        size, formula = tokens * each, f"T {symbol}"
        return term(Item.ACTIVATIONS, name, size, formula, evidence, symbols=numbers, source=source)

    # -- forward ------------------------------------------------------------------------

    @cached_property
    def root(self) -> Term | None:
        """The root unit, whole from the first layer to the projection; None where it is the norm alone."""
        if self.shared.keeps_layers or self.units.separate_head:
            return None
        return self.whole("root_unit", "U_r", self.units.head)

    @property
    def layers_kept(self) -> Term | None:
        """All units but the head's own, where nothing is resharded; of the last layer."""
        if not self.shared.keeps_layers:
            return None
        return self.whole("unsharded_model", "U_w", self.units.kept(self.given.model.layers - 1))

    @property
    def first_gather(self) -> tuple[Term | None, ...]:
        """The unit gathered first, before its weights are copied out: its buffer and this rank's share."""
        if self.shared.keeps_layers:
            return ()
        unit, source = self.units.embedding, fsdp2_units.cast_shard_bytes
        size = fsdp2_units.cast_shard_bytes(unit, self.given.engine)
        if not size:
            return (self._buffer("gather_buffer", "U_e", unit),)
        share = self.sized("cast_shards", "b_c ceil(U_e / W)", source, size, units={})
        return self._buffer("gather_buffer", "U_e", unit), share

    def gather(self, layer: int) -> Term:
        """A layer while it is gathered, and the buffer of the unit before it."""
        return self._gather("gathered_layer", self.units.layers[layer], self.units.before(layer))

    @property
    def largest_gather(self) -> Term | None:
        """The same of the layer that needs the most, the first apart; None of a single layer."""
        ends = [layer for layer in self.units.turns(self.kinds) if layer]
        return max((self.gather(layer) for layer in ends), key=lambda found: found.bytes, default=None)

    @property
    def head_gather(self) -> Term | None:
        """The output projection's own unit while it is gathered; None where it is in the root."""
        if not self.units.separate_head:
            return None
        return self._gather("head_gather", self.units.head, self.units.layers[-1])

    def _gather(self, name: str, unit: int, before: int) -> Term:
        engine, numbers = self.given.engine, {"U_l": unit, "U_a": before}
        source = fsdp2_units.gather_bytes
        size = fsdp2_units.gather_bytes(unit, before, engine)
        if not self.shared.keeps_layers:
            return self.sized(name, "b_c (c U_l + (c - 1) U_a)", source, size, units=numbers)
        size -= fsdp2_units.whole_bytes(unit, engine)  # its weights are counted with all others
        return self.sized(name, "b_c (c - 1) (U_l + U_a)", source, size, units=numbers)

    @property
    def embeddings(self) -> Term:
        """The embeddings, which the model's forward pass holds until it returns."""
        each = activations.layer_input_bytes(self.given.model, self.given.engine)
        return self.activation("embeddings", "a_i", each, "memory.layer.activations.layer_input_bytes")

    def working(self, layer: int) -> Term:
        """A layer that works, its buffer, and the layer gathered ahead."""
        unit, engine = self.units.layers[layer], self.given.engine
        if self.shared.keeps_layers:
            return self._buffer("last_buffer", "U_l", unit)
        prefetched = units.prefetched_layers(engine)
        size = fsdp2_units.working_bytes(unit, prefetched, engine)
        return self.sized(
            "layer_units", "b_c (c U_l + p U_l)", fsdp2_units.working_bytes, size, units={"U_l": unit}
        )

    def _buffer(self, name: str, symbol: str, unit: int) -> Term:
        size = fsdp2_units.buffer_bytes(unit, self.given.engine)
        formula = f"b_c (c - 1) {symbol}"
        return self.sized(name, formula, fsdp2_units.buffer_bytes, size, units={symbol: unit})

    def inside(self, layer: int) -> Term:
        """What a layer needs in a forward pass without gradients, its input and the embeddings included."""
        given = self.given
        each = 2 * activations.layer_input_bytes(given.model, given.engine)
        each += activations.layer_inside_bytes(given.model, given.engine, layer)
        counted = given.model.traced is not None
        source = (
            "memory.layer.traced.layer_bytes" if counted else "memory.layer.activations.layer_forward_bytes"
        )
        return self.activation("layer_forward", "a_f", each, source)

    @property
    def head_units(self) -> tuple[Term | None, ...]:
        """The projection's weights and the buffer of the last gather while it works."""
        head, last = self.units.head, self.units.layers[-1]
        if not self.units.separate_head:
            return self.shared.whole_model, self.root, self._buffer("last_buffer", "U_l", last)
        if self.shared.keeps_layers:
            return self.shared.whole_model, self._buffer("last_buffer", "U_r", head)
        return self.whole("root_unit", "U_r", head), self._buffer("last_buffer", "U_r", head)
