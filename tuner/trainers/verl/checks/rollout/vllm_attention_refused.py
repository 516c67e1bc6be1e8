"""An attention backend of vLLM that its version does not know, or that refuses the job

What it checks
--------------
``engine_kwargs.vllm.attention_backend``, ``engine_kwargs.vllm.attention_config.backend`` and the variable ``VLLM_ATTENTION_BACKEND``, against the version of vLLM, the card, the model and ``engine_kwargs.vllm.kv_cache_dtype``:

* the name, against those that the version knows: ``XFORMERS`` until 0.11.2, names that end in ``_VLLM_V1`` until 0.10.2;
* the argument, which vLLM has since 0.13.0;
* since 0.11.1 the compute capability: 8.0 for ``FLASH_ATTN``, 7.5 to 12.1 for ``FLASHINFER``, since 0.24.0 from 8.0 on, 9 for ``FLASH_ATTN_MLA``, 9 and 10 for ``FLASHMLA``, 10 for ``CUTLASS_MLA`` and ``FLASHINFER_MLA``;
* since 0.11.1 the head's dimension: multiples of 32, since 0.12.0 of 8, up to 256 for ``FLASH_ATTN``, 64, 128 and 256 for ``FLASHINFER``;
* since 0.11.1 a cache in FP8: not with ``FLEX_ATTENTION``, ``TREE_ATTN`` and ``FLASH_ATTN_MLA``, with ``FLASH_ATTN`` on compute capability 9 alone;
* since 0.11.1 latent attention, which has backends of its own.

The override leaves the choice to vLLM.

Why it matters
--------------
vLLM raises ``ValueError`` or ``KeyError`` as it starts, or its command line refuses the argument.
No engine starts, so that no job does.

When it does not apply
----------------------
No backend is asked for: vLLM then takes one that fits.
A name that is not known to vLLM up to 0.10.0, which goes on without it, and a backend that does not fit up to 0.11.0.
The variable under vLLM 0.16 and later, which do not read it; of 0.15 that is not known.
Cards of AMD and Huawei, whose backends are others.

Sources
-------
vLLM 0.10.1 ``attention/selector.py:198-202``, 0.11.0 to 0.14.0 ``envs.py`` (``VLLM_ATTENTION_BACKEND``), 0.13.0 ``engine/arg_utils.py:528, 546`` and ``config/attention.py`` (``validate_backend_before``).
vLLM 0.11.1 and 0.24.0 ``platforms/cuda.py`` (``get_attn_backend_cls``: "is not valid for this configuration").
vLLM 0.11.1 to 0.24.0 ``v1/attention/backends/flash_attn.py``, ``flashinfer.py``, ``triton_attn.py``, ``flex_attention.py`` and ``mla/``.
verl 0.4.1 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py:140-168``, 0.6.0 ``vllm_async_server.py:188-224``, 0.9.1 lines 287-349 (arguments that are handed on).
"""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import Location
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.serving import vllm_attention
from tuner.serving.vllm_attention import ServedAttention
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.trainers.verl.given_environment import given_variables
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG196",
    name="vllm-attention-refused",
    summary=N_("an attention backend that this vLLM does not know, or that refuses the job"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

REFUSED_BY = RefusedBy.ENGINE

_ENGINE = f"{ROLLOUT}.engine_kwargs.vllm"
_ARGUMENT, _CONFIG = f"{_ENGINE}.attention_backend", f"{_ENGINE}.attention_config"
_VARIABLE = "VLLM_ATTENTION_BACKEND"
_HANDS_ON = Releases(since="0.4.0")
_SERVER_HANDS_ON = Releases(since="0.6.0")


class _ChosenBackend(Struct, frozen=True, kw_only=True):
    """A backend by the word that asks for it."""

    source: str  # the key or the variable
    word: str
    key: str = ""  # empty of a variable
    location: Location | None = None  # of a variable
    undone: str = ""  # the key that is to be null for vLLM to choose; empty where none is

    @property
    def by_argument(self) -> bool:
        """Whether an argument of the engine asks, not a variable of its environment."""
        return bool(self.undone)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for each word that the engine refuses."""
    if workload.generator.engine is not RolloutEngine.VLLM or workload.cluster.gpu.vendor != "nvidia":
        return
    for chosen in _chosen_backends(settings, version):
        refusal = _refusal(chosen, settings, workload)
        if refusal is not None:
            finding = report(
                RULE,
                settings,
                _(
                    "{key}={word}: vLLM {engine_version} under {release} {refusal}, and refuses to start"
                ).format(
                    key=chosen.source,
                    word=chosen.word,
                    engine_version=workload.generator.engine_version,
                    release=workload.release,
                    refusal=refusal,
                ),
                keys=[chosen.key] if chosen.key else [],
                overrides=[assign(settings, chosen.undone, None)] if chosen.undone else [],
                notes=[] if chosen.undone else [_("Without the variable vLLM takes a backend that fits.")],
            )
            yield finding if chosen.location is None else replace(finding, location=chosen.location)


def _chosen_backends(settings: Settings, version: str) -> Iterator[_ChosenBackend]:
    """What is handed to the engine."""
    served = settings.text(f"{ROLLOUT}.mode", default="sync") != "sync"
    if version in (_SERVER_HANDS_ON if served else _HANDS_ON):
        for key, undone in ((_ARGUMENT, _ARGUMENT), (f"{_CONFIG}.backend", _CONFIG)):
            word = settings.get(key)
            if word is not None:
                yield _ChosenBackend(source=key, word=str(word), key=key, undone=undone)
    variable = given_variables(settings, version).get(_VARIABLE)
    if variable is not None:
        yield _ChosenBackend(source=_VARIABLE, word=variable.value, location=variable.location)


def _refusal(chosen: _ChosenBackend, settings: Settings, workload: Workload) -> str | None:
    """What the engine does about it, None where it takes it or does not read it."""
    version, name = workload.generator.engine_version, chosen.word
    if chosen.by_argument:
        if not vllm_attention.takes_argument(version):
            return _("has no such argument, which came with 0.13.0")
        named = vllm_attention.name_of_argument(version, chosen.word)
        if named is None:
            return None
        name = named
    elif not vllm_attention.reads_variable(version):
        return None
    if name not in vllm_attention.known_backends(version):
        known = chosen.by_argument or vllm_attention.refuses_unknown(version)
        return _("knows no attention backend of this name") if known else None
    reasons = vllm_attention.invalid_reasons(version, name, _served(settings, workload))
    return (
        _("finds it not valid for this job ({reasons})").format(reasons=", ".join(reasons))
        if reasons
        else None
    )


def _served(settings: Settings, workload: Workload) -> ServedAttention:
    """What decides whether a backend takes the job."""
    gpu, model = workload.cluster.gpu, workload.model
    digits = gpu.architecture.removeprefix("sm_").rstrip("af")
    return ServedAttention(
        capability=(int(digits[:-1]), int(digits[-1])),
        head_dim=model.head_dim,
        latent=model.latent is not None,
        cache_format=settings.text(f"{_ENGINE}.kv_cache_dtype", default="auto"),
    )
