"""Terms of a layer's backward pass that FSDP1 and FSDP2 have in common."""

from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from tuner.memory.fsdp import gathered_weights, gradients, per_token
from tuner.memory.fsdp.shared_terms import SharedTerms
from tuner.memory.layer import activations, checkpointing
from tuner.memory.layer.backward_stages import BackwardStage, backward_stages
from tuner.memory.ledger.terms import Term
from tuner.workload import Checkpointing


class LayersBackward(Struct, frozen=True, dict=True):
    """The terms of one backward pass, each of the layer that works."""

    shared: SharedTerms

    # -- weights ------------------------------------------------------------------------

    def weights(self, layer: int) -> tuple[Term | None, ...]:
        """Weights that are whole in a layer's backward pass."""
        if self.shared.keeps_layers:
            return (self.shared.kept_units(layer),)
        own = self.shared.order.layers[layer]
        root, below = self.weights_around(layer)
        return root, self.shared.sized("layer_unit", gathered_weights.layer_unit_bytes, U_l=own), below

    def weights_around(self, layer: int) -> tuple[Term | None, ...]:
        """Weights that are whole in a layer's backward pass, without the layer's own."""
        if self.shared.keeps_layers:
            return (self.shared.kept_units(layer),)
        below = self.shared.order.below(layer)
        prefetched = self.shared.sized("prefetched_layer", gathered_weights.prefetched_unit_bytes, U_b=below)
        return self.shared.root, prefetched

    @property
    def tower_weights(self) -> tuple[Term | None, ...]:
        """Weights that are whole when the last block of a vision tower is differentiated."""
        tower = self.shared.micro_batch.model.tower
        if tower is None:
            return ()
        if self.shared.keeps_layers:
            return (self.shared.kept_units(-1),)
        own = self.shared.sized("layer_unit", gathered_weights.layer_unit_bytes, U_l=tower.block_unit)
        below = self.shared.sized(
            "prefetched_layer", gathered_weights.prefetched_unit_bytes, U_b=tower.block_unit
        )
        return self.shared.root, own, below

    # -- gradients ----------------------------------------------------------------------

    @property
    def tower_waiting(self) -> int:
        """Trained parameters whose gradients are not reduced when the backward pass reaches the tower."""
        order = self.shared.order
        return order.tower + order.trained(order.last)

    @property
    def accumulates(self) -> bool:
        """Whether gradients are added to reduced ones of earlier micro-batches."""
        micro_batch = self.shared.micro_batch
        return micro_batch.micro_batches > 1 and not micro_batch.engine.deferred_gradient_sync

    def gradients(self, waiting: int) -> tuple[Term, ...]:
        """Reduced gradients, of all but ``waiting`` parameters; and those of earlier micro-batches."""
        if self.accumulates:
            return (self.shared.gradients,)
        size = gradients.reduced_gradient_bytes
        reduced = self.shared.gradient("gradients", size, U_k=waiting)
        if self.shared.micro_batch.micro_batches == 1:
            return (reduced,)
        return reduced, self.shared.deferred_gradients(waiting)

    @property
    def embedding_gradients(self) -> Term:
        """The embedding's gradients when it is differentiated.

        A shared matrix has two gradients by then, which are added to a third.
        """
        model = self.shared.micro_batch.model
        return self.shared.sized(
            "embedding_gradients",
            gradients.embedding_gradient_bytes,
            n_g=gradients.embedding_gradients(model),
            U_v=self.shared.order.trained(model.embedding_parameters),
        )

    # -- activations --------------------------------------------------------------------

    def layer(self, layer: int) -> tuple[Term | None, ...]:
        """A layer's gradients and activations, at the stage of its backward pass that needs the most."""
        shared, engine = self.shared, self.shared.micro_batch.engine
        compute, tokens = engine.compute_dtype.bytes, shared.micro_batch.tokens
        saved, stages = self._stages[shared.order.kinds[layer]]
        stage = max(stages, key=lambda stage: compute * stage.gradients + tokens * stage.activations)
        gradient = shared.sized("layer_gradient", gradients.layer_gradient_bytes, U_g=stage.gradients)
        left = stage.activations
        if left < saved:
            remains = per_token.layer_remains_bytes
            return gradient, shared.in_layer("layer_remains", remains, backward_stages, a_e=left)
        name = "saved_layer" if engine.checkpointing is Checkpointing.NONE else "recomputed_layer"
        own, backward_bytes = per_token.saved_layer_bytes, per_token.layer_backward_bytes
        return (
            gradient,
            shared.in_layer(name, own, activations.layer_saved_bytes, a_l=saved),
            shared.in_layer("layer_backward", backward_bytes, backward_stages, a_g=left - saved),
        )

    @cached_property
    def _stages(self) -> dict[tuple[object, ...], tuple[int, tuple[BackwardStage, ...]]]:
        """What a layer of each kind saves per token, and the stages of its backward pass."""
        model, engine = self.shared.micro_batch.model, self.shared.micro_batch.engine
        order = self.shared.order
        return {
            order.kinds[layer]: (
                activations.layer_saved_bytes(model, engine, layer),
                self._stages_of(layer),
            )
            for layer in order.one_of_each_kind
        }

    def _stages_of(self, layer: int) -> tuple[BackwardStage, ...]:
        """The stages of a layer's backward pass, with gradients of those experts alone that are gathered."""
        model, engine = self.shared.micro_batch.model, self.shared.micro_batch.engine
        stages = backward_stages(model, engine, layer)
        gathered = self.shared.order.model
        if gathered is model:
            return stages
        own = backward_stages(gathered, engine, layer)
        return tuple(
            replace(stage, gradients=of_own.gradients) for stage, of_own in zip(stages, own, strict=True)
        )

    def saved(self, layer: int) -> Term:
        """What the forward pass saved of the layers below, and of this one all but what is its own."""
        model, engine = self.shared.micro_batch.model, self.shared.micro_batch.engine
        checkpointed_layers = checkpointing.layers_held_in_backward(model, engine, layer)
        if engine.checkpointing is Checkpointing.FULL:
            return self.shared.layer_inputs(checkpointed_layers)
        kinds = self.shared.order.kinds
        below = range(layer - checkpointed_layers + 1, layer)
        return self.shared.saved_layers(sum(self._stages[kinds[index]][0] for index in below))
