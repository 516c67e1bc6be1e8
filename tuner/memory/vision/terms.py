"""The vision tower's terms in a pass of an FSDP engine."""

from collections.abc import Mapping

from tuner.evidence import Evidence
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.layer.activations import layer_input_bytes
from tuner.memory.ledger.formula import ceil_div
from tuner.memory.ledger.stated_terms import Size
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.process.constant import Constant, heuristic
from tuner.memory.vision import activations
from tuner.vision_tower import VisionTower
from tuner.workload import Backend, Checkpointing, Engine

#: The names of the terms that stay where they are when activations are offloaded.
TOWER_KEEPS = frozenset({"tower_kept", "tower_block", "tower_gradients"})


def tower_kept_bytes(*, P: int, a_p: int, D: int, a_k: int, n_v: int, a_m: int, a_r: int) -> int:
    """What the tower keeps of a forward pass until the decoder's backward pass is done.

    The patches, what every block keeps, which is its input where it is computed again, and its mergers. FSDP2
    casts the rotary tables for every block, which goes back to float32 with copies of its own, :math:`a_r`.
    Patches that are float32 on the card as well are not counted, nor is activation offload, which is taken to
    leave the tower alone.

    Source: :func:`~tuner.memory.vision.activations.patch_bytes`,
    :func:`~tuner.memory.vision.activations.block_saved_bytes`,
    :func:`~tuner.memory.vision.activations.merger_saved_bytes`; transformers ``GradientCheckpointingLayer``,
    ``apply_rotary_pos_emb_vision``; torch ``_fsdp_state.py`` (``_pre_forward``, ``cast_forward_inputs``).
    """
    return P * (a_p + D * (a_k + a_r) + n_v * a_m)


def tower_block_bytes(*, P: int, a_k: int, a_d: int) -> int:
    """A block of the tower that is computed again, with the gradients in flight in it.

    Source: :func:`~tuner.memory.vision.activations.block_backward_bytes`.
    """
    return P * (a_k + a_d)


def tower_gradients_bytes(*, P: int, a_d: int) -> int:
    """Gradients in flight in a block of the tower that kept everything.

    Source: :func:`~tuner.memory.vision.activations.block_backward_bytes`.
    """
    return P * a_d


def tower_forward_bytes(*, P: int, a_p: int, a_t: int) -> int:
    """The tower in a pass without gradients: the patches, and a block that works on them.

    Source: :func:`~tuner.memory.vision.activations.block_forward_bytes`.
    """
    return P * (a_p + a_t)


def patches_bytes(*, P: int, a_v: int) -> int:
    """The patches in the compute dtype, which FSDP has cast them to and the model's forward pass holds.

    Source: torch ``_fsdp_state.py`` (``_pre_forward``, ``cast_forward_inputs``).
    """
    return P * a_v


def image_embeddings_bytes(*, P: int, m_s: int, n_v: int, a_o: int) -> int:
    """Tokens that the tower made of the images, while the decoder's layers work.

    They are copied into the embeddings and held all the same until the model returns; those of further
    mergers are added to the first layers.

    Source: transformers ``Qwen2_5_VLModel.forward``, ``Qwen3VLTextModel.forward``
    (``deepstack_visual_embeds``).
    """
    return ceil_div(P, m_s) * n_v * a_o


class TowerTerms:
    """The terms of one micro-batch; there must be patches in it."""

    def __init__(self, micro_batch: PassInput, tower: VisionTower) -> None:
        assert micro_batch.patches is not None
        self._patches, self._engine, self._tower = micro_batch.patches, micro_batch.engine, tower
        self._numbers: Mapping[str, float] = {
            "a_p": activations.patch_bytes(tower, self._engine),
            "D": tower.blocks,
            "a_v": self._engine.compute_dtype.bytes * tower.values,
            "a_d": activations.block_backward_bytes(tower, self._engine),
            "n_v": tower.mergers,
            "a_m": activations.merger_saved_bytes(tower, self._engine),
            "a_t": activations.block_forward_bytes(tower, self._engine),
            "a_o": layer_input_bytes(micro_batch.model, self._engine),
            "m_s": tower.patches_per_token,
        }

    @property
    def kept_activations(self) -> Term:
        """What a tower that is trained keeps until its backward pass."""
        inputs = self._engine.compute_dtype.bytes * self._tower.width
        if not self._engine.trains_tower:
            return self._frozen(inputs)
        if self._recomputes:
            return self._term("tower_kept", tower_kept_bytes, a_k=inputs, a_r=0)
        casts = self._engine.backend is Backend.FSDP2
        tables = activations.tables_bytes(self._tower) if casts else 0
        return self._term("tower_kept", tower_kept_bytes, a_k=self._saved, a_r=tables)

    def _frozen(self, inputs: int) -> Term:
        """What a frozen tower keeps whose patches require a gradient; the low end is nothing."""
        patches = self._patches
        uncertain = Constant(low=0, typical=patches.typical, high=patches.high, source=patches.source)
        merger = activations.merger_saved_bytes(self._tower, self._engine, frozen=True)
        tables = activations.tables_bytes(self._tower)
        numbers = {**self._numbers, "a_p": inputs + tables, "a_k": inputs, "a_m": merger, "a_r": 0}
        return heuristic(
            Item.ACTIVATIONS,
            "tower_kept",
            tower_kept_bytes,
            {"P": uncertain},
            numbers,
            evidence=Evidence.MODELLED,
        )

    @property
    def backward(self) -> Term:
        """What the backward pass of a block adds."""
        if self._recomputes:
            return self._term("tower_block", tower_block_bytes, a_k=self._saved)
        return self._term("tower_gradients", tower_gradients_bytes)

    @property
    def forward(self) -> Term:
        """The tower where nothing needs a gradient."""
        return self._term("tower_forward", tower_forward_bytes)

    @property
    def patches(self) -> Term:
        """What it reads."""
        return self._term("patches", patches_bytes)

    @property
    def embeddings(self) -> Term:
        """Its tokens."""
        return self._term("image_embeddings", image_embeddings_bytes)

    @property
    def _recomputes(self) -> bool:
        return self._engine.checkpointing is Checkpointing.FULL

    @property
    def _saved(self) -> int:
        frozen = not self._engine.trains_tower
        return activations.block_saved_bytes(self._tower, self._engine, frozen=frozen)

    def _term(self, name: str, size: Size, **numbers: int) -> Term:
        return heuristic(
            Item.ACTIVATIONS,
            name,
            size,
            {"P": self._patches},
            {**self._numbers, **numbers},
            evidence=Evidence.MODELLED,
        )


def keeps_tower(engine: Engine, tower: VisionTower) -> bool:
    """Whether the tower's activations are kept: not where it is frozen and nothing is computed again.

    Adapters are taken to reach it, as they do unless its modules are excluded. Switching checkpointing on,
    transformers 5 makes the output of every embedding that it finds require a gradient. It finds that of the
    patches in Qwen2-VL and Qwen2.5-VL, and not in Qwen3-VL: the blocks of a frozen tower are then
    differentiated, and their inputs kept. Earlier releases did that to the tokens' embedding alone, so that a
    frozen tower keeps nothing, which is the low end.

    Source: transformers 5.10 ``modeling_utils.py`` (``gradient_checkpointing_enable``,
    ``enable_input_require_grads``), ``modeling_qwen2_5_vl.py`` (``_input_embed_layer``), which
    ``modeling_qwen3_vl.py`` does not have.
    """
    differentiated = engine.frozen_tower and tower.embeds_patches
    return engine.trains_tower or (differentiated and engine.checkpointing is Checkpointing.FULL)
