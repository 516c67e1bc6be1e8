"""What a release that is not bundled may do: what bundled ones do, and what is known of older ones.

Its defaults and its code are not here. What decides memory in it is a fact that is missing, so a job is
looked at under every behaviour that there is a reason to expect.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.errors import TunerError
from tuner.language import _
from tuner.trainers.protocol import Behaviour, Reader
from tuner.trainers.verl.releases import BUNDLED
from tuner.versions import at_least
from tuner.workload import RolloutEngine, Workload

_NEWER_VLLM = "0.3.0"  # before: setup.py asks for vllm<=0.6.3
_OLD_VLLM = "0.6.3"


def behaviours(release: str, nearest: Workload, read: Reader) -> tuple[Behaviour, ...]:
    """The ways in which a job may run under a release that is not bundled.

    * As its neighbours among the bundled releases would run the same configuration: the next older and the
      next newer. One that refuses it is left out.
    * Before 0.3 the engine is vLLM 0.6.3.
    * With it goes a transformers whose models may return float32 logits, as all did before 4.46.

    Args:
        release: the release that is meant.
        nearest: the workload as the bundled release has it that the answer rests on; it comes first.
        read: reads the configuration as another release.

    Source: verl ``setup.py`` (v0.2.0.post2, v0.3.0.post1); transformers ``models/qwen2/modeling_qwen2.py``
    (4.45).
    """
    newer = [version for version in BUNDLED if at_least(version, release)]
    read_by = [
        _workload_or_none(read, version) for version in newer[:1] if version != nearest.release.version
    ]
    return (
        Behaviour(name=_("as {release}").format(release=nearest.release), workload=nearest),
        *(
            Behaviour(name=_("as {release}").format(release=job.release), workload=job)
            for job in read_by
            if job is not None
        ),
        *_of_older(release, read),
    )


def engine_version_of(release: str, nearest: Workload) -> str | None:
    """The rollout engine's version that a release goes with, where ``nearest`` has one that it never had."""
    if at_least(release, _NEWER_VLLM) or nearest.rollout is None:
        return None
    return _OLD_VLLM if nearest.rollout.engine is RolloutEngine.VLLM else None


def _of_older(release: str, read: Reader) -> Iterator[Behaviour]:
    if at_least(release, _NEWER_VLLM):
        return
    job = _workload_or_none(read, BUNDLED[0])
    if job is None:
        return
    if job.generator.engine is RolloutEngine.VLLM:
        job = _workload_or_none(read, BUNDLED[0], _OLD_VLLM) or job
    yield Behaviour(name=_("as releases before 0.3"), workload=job)
    job = job.with_actor_head(logits_dtype=DType.FLOAT32)
    if job.reference is not None:
        job = job.with_reference(head=replace(job.reference.head, logits_dtype=DType.FLOAT32))
    yield Behaviour(
        name=_("as releases before 0.3 with float32 logits (transformers before 4.46)"), workload=job
    )


def _workload_or_none(read: Reader, version: str, engine_version: str | None = None) -> Workload | None:
    """None where the release refuses the configuration or its engine."""
    try:
        return read(version, engine_version)
    except TunerError:
        return None
