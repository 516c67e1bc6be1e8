"""Reads the inference engine of a reward model or a teacher: the rollout's fields, from another section."""

from typing import Any

from tuner.hardware import Gpu
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.serving import sglang, tensorrt_llm, vllm
from tuner.trainers.fields import (
    read_fields,
)
from tuner.trainers.verl.fields.rollout import expect_gpus, read_rollout_engine
from tuner.trainers.verl.fields.rollout_fields import ROLLOUT, RolloutContext
from tuner.trainers.verl.rollout_engine_versions import newest_allowed
from tuner.trainers.verl.service_keys import POLICY_SECTION, SERVED
from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import Batch, Rollout, RolloutEngine

# What sizes a replica has, and the defaults of verl's dataclass.
_PARALLEL = {"rollout.tensor_parallel": 2, "rollout.data_parallel": 1, "rollout.pipeline_parallel": 1}


class ServedSource(ReleaseSettings, frozen=True, kw_only=True):
    """Settings in which the keys of the rollout stand in another section.

    Of several sections the first one wins that sets a key.
    """

    sections: tuple[str, ...]

    @classmethod
    def of(cls, source: ReleaseSettings, sections: tuple[str, ...]) -> "ServedSource":
        """A source with the rollout's keys in these sections."""
        return cls(
            settings=source.settings,
            version=source.version,
            table=source.table,
            v1_trainer=source.v1_trainer,
            sections=sections,
        )

    def key(self, meaning: str) -> str | None:
        """The key of a meaning in this release, None where it has none."""
        name = super().key(meaning)
        if name is None or not name.startswith(f"{POLICY_SECTION}."):
            return name
        if meaning not in SERVED:
            return None
        keys = [name.replace(POLICY_SECTION, section, 1) for section in self.sections]
        return next((key for key in keys if self.settings.get(key) is not None), keys[-1])


def read_server(
    source: ServedSource,
    model: ModelShape,
    batch: Batch,
    rollout: Rollout,
    gpu: Gpu,
    gpus: int,
    *,
    colocated: bool,
) -> Rollout:
    """The engine that serves a model; of the policy's kind it has the policy's version.

    Raises:
        InputError: an unknown engine is named, or one replica needs more GPUs than there are.
        UnsupportedError: this version of the engine cannot serve the model.
    """
    engine = read_rollout_engine(source)
    if engine is RolloutEngine.TRANSFORMERS:
        raise source.error("rollout.engine", _("verl has no server of this engine"), hint=_("vllm or sglang"))
    version = rollout.engine_version if engine is rollout.engine else newest_allowed(engine, source.version)
    context = RolloutContext(
        source=source,
        rollout_engine=engine,
        version=version,
        colocated=colocated,
        max_prompt_tokens=batch.max_prompt_tokens,
        max_response_tokens=batch.max_response_tokens,
        model=model,
        gpu=gpu,
    )
    fields = read_fields(ROLLOUT, context)
    if gpus:
        expect_gpus(context, fields, gpus)
    return Rollout(
        engine=engine,
        engine_version=version,
        **{**_engine_facts(source, engine, version, model), **fields},
        colocated=colocated,
        gpus=gpus,
    )


def replica_gpus(source: ServedSource) -> int:
    """GPUs of one replica."""
    tensor, data, pipeline = (source.integer(meaning, default=size) for meaning, size in _PARALLEL.items())
    return tensor * data * pipeline


def _engine_facts(
    source: ReleaseSettings, engine: RolloutEngine, version: str, model: ModelShape
) -> dict[str, Any]:
    """What follows from the engine and the release; its weights are not trained, so they go to the host.

    A model with one output has no logits to sample from. SGLang keeps a copy of its weights since 0.9 only.
    """
    match engine:
        case RolloutEngine.VLLM:
            facts = vllm.memory_facts(version, model)
        case RolloutEngine.SGLANG:
            facts = sglang.memory_facts()
        case _:
            facts = tensorrt_llm.memory_facts()
    copies = engine is RolloutEngine.VLLM or (engine is RolloutEngine.SGLANG and source.since("0.9.0"))
    return {
        **facts,
        **({"sampler_bytes": 0} if model.value_head else {}),
        "staged_wake_up": False,
        "sleep_level": 1 if copies else 2,
    }
