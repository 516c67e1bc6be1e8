"""Packed sequences that attend to each other

What it checks
--------------
``model.use_remove_padding=True`` under FSDP where the model's attention is ``sdpa`` or ``eager`` and transformers is older than 4.53.1, or torch older than 2.6.
The attention is asked for by ``model.override_config.attn_implementation`` since verl 0.6.1, in a copy by a key or a word of its workers, or by nothing at all, and transformers then takes ``sdpa``.
The override asks for ``flash_attention_2``, whose package the packing itself is imported from; where no key does, it pads.

Why it matters
--------------
Packed sequences lie end to end in one row, with positions that begin anew and no mask.
FlashAttention makes sequences of the positions.
Any other attention gets a mask from transformers, and before 4.53.1 that is the causal one of the whole row: each sequence sees all that stand before it, prompts and responses of other samples.
Log-probabilities, and so ratios, KL and gradients, are those of texts that nobody generated.

When it does not apply
----------------------
transformers 4.53.1 or newer with torch 2.6 or newer, which makes a mask of blocks from the positions; vLLM 0.10.0 and later ask for such.
Where nothing says which there are, it is a warning in a copy of verl and advice in a release.
Padded sequences, which have a mask.
A model with a vision tower, whose attention verl replaces, and sequence parallelism.

Sources
-------
transformers 4.47.1 to 4.52.4 ``models/qwen2/modeling_qwen2.py`` (``_update_causal_mask``), 4.53.0 and 4.53.1 ``masking_utils.py`` (``_preprocess_mask_arguments``).
verl 0.6.1 ``workers/fsdp_workers.py:318``, 0.9.1 ``workers/config/model.py:185``; 0.4.1 ``workers/actor/dp_actor.py`` (``attention_mask=None``).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuner.architectures import find_architecture
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.model_shape import ModelShape
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import CRITIC, MODEL
from tuner.trainers.verl.fields.role import names_attention
from tuner.workload import Backend, Engine, RolloutEngine, Workload

if TYPE_CHECKING:
    from tuner.trainers.verl.packed_attention import RowAttention

RULE = Rule(
    code="CFG210",
    name="packing-mixes-sequences",
    summary=N_("packed sequences attend to those before them in their row"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)

#: By whether a copy of the trainer would run, where nobody says which libraries there are.
_UNSURE = {True: Severity.WARNING, False: Severity.ADVICE}
_FLASH = "flash_attention_2"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding for each model whose packed rows are one sequence to its attention."""
    rollout = workload.rollout
    vllm = "" if rollout is None or rollout.engine is not RolloutEngine.VLLM else rollout.engine_version
    models = {MODEL: (workload.actor.engine, workload.model)}
    if workload.critic is not None:
        models[f"{CRITIC}.model"] = (workload.critic.engine, workload.critic.model)
    for section, (engine, model) in models.items():
        if names_attention(settings, section) and _is_plain(engine, model):
            from tuner.trainers.verl.packed_attention import brings_blocks, row_attention  # few name any

            attention = row_attention(settings, version, section)
            if attention is not None and (attention.is_sure or not brings_blocks(vllm)):
                yield _finding(settings, workload, section, attention)


def _is_plain(engine: Engine, model: ModelShape) -> bool:
    """Whether packed rows reach attention of transformers' own, under FSDP and undivided."""
    sees = find_architecture(model.architecture).tower is not None
    return (
        engine.packed and engine.backend is not Backend.MEGATRON and engine.parallel.ulysses == 1 and not sees
    )


def _finding(settings: Settings, workload: Workload, section: str, attention: "RowAttention") -> Finding:
    packed = f"{section}.use_remove_padding"
    pads = assign(settings, packed, False)
    return report(
        RULE,
        settings,
        _(
            "{packed}=True with the attention {name}: {cause}, whose mask is that of the whole row, so that "
            "each sequence attends to all that are packed before it"
        ).format(packed=packed, name=attention.name, cause=_cause(attention)),
        keys=[attention.key, packed] if attention.key else [packed],
        overrides=[assign(settings, attention.key, _FLASH) if attention.key else pads],
        severity=None if attention.is_sure else _UNSURE[attention.of_copy],
        notes=[_("{pads} keeps {name} instead").format(pads=pads, name=attention.name)]
        if attention.key
        else [],
    )


def _cause(attention: "RowAttention") -> str:
    """Which library is too old, or would be."""
    from tuner.trainers.verl.packed_attention import BLOCKS_SINCE, TORCH_SINCE

    if attention.torch:
        return _("the files around the launch ask for torch {version}, older than {since}").format(
            version=attention.torch, since=TORCH_SINCE
        )
    if attention.transformers:
        return _("the files around the launch ask for transformers {version}, older than {since}").format(
            version=attention.transformers, since=BLOCKS_SINCE
        )
    return _("nothing says which transformers runs, as one before {since}").format(since=BLOCKS_SINCE)
