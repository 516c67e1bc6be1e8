"""An attention backend that this SGLang does not know, or that this card or model cannot run

What it checks
--------------
``engine_kwargs.sglang.attention_backend``, or what verl puts in its place, against the names that this version of SGLang knows, and against the card: ``ascend`` runs on Huawei's, ``aiter`` and ``wave`` on AMD's, ``intel_xpu`` on Intel's.
``trtllm_mha`` and ``trtllm_mla`` run on Blackwell, the first without and the second with latent attention.
``fa4`` is for prefill alone in 0.5.5 to 0.5.7.
``fa3`` runs on NVIDIA's compute capability 8 and 9 only, with latent attention on 9 only.
verl 0.5.0 always asks for ``fa3``; 0.6.0 to 0.7.1 do where nothing is set, and 0.8.0 and later where SGLang is older than 0.5.12.

Why it matters
--------------
SGLang builds the backend as it starts: it raises ``ValueError`` for a name that it does not know or a card that a backend is not for and ``AssertionError`` for ``fa3`` on another capability, and fails to import the kernels of another vendor.
No engine starts, so that no job does.

When it does not apply
----------------------
Backends that choose their kernels themselves, such as ``triton`` and ``torch_native``.
verl up to 0.4.1, which leaves the choice to SGLang.

Sources
-------
SGLang ``srt/layers/attention/attention_registry.py`` (``create_flashattention_v3_backend``, ``create_ascend_backend``, ``create_aiter_backend``); before 0.5.3 ``srt/model_executor/model_runner.py``.
SGLang 0.4.10 ``srt/server_args.py:428-431``, 0.5.2 lines 578-605, 0.5.8 lines 1736-1763, 0.5.12 lines 2713-2768 (Blackwell); 0.5.5 lines 1259-1261 and 0.5.6 lines 1409-1411 (``fa4``).
verl 0.5.0 ``workers/rollout/sglang_rollout/sglang_rollout.py:463-464``, 0.7.1 ``async_sglang_server.py:162, 197``, 0.8.0 lines 256-264, 0.9.1 lines 289-297.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.serving import sglang
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.versions import at_least
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG170",
    name="attention-backend-refused",
    summary=N_("an attention backend that this SGLang does not know, or that this card or model cannot run"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

REFUSED_BY = RefusedBy.ENGINE

_KEY = f"{ROLLOUT}.engine_kwargs.sglang.attention_backend"
_FIXED = Releases(since="0.5.0", until="0.6.0")
_ASKED = Releases(since="0.6.0")
_BY_ENGINE = Releases(since="0.8.0")
_AMD_TOLD_APART = Releases(since="0.9.0")
_VENDORS = {"ascend": "huawei", "aiter": "amd", "wave": "amd", "intel_xpu": "intel"}
_OF_BLACKWELL = ("trtllm_mha", "trtllm_mla")
_OWN = {"huawei": "ascend", "amd": "aiter", "nvidia": "flashinfer"}


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for a backend that refuses the card."""
    backend = _backend(settings, workload, version)
    refusal = None if backend is None else _refusal(backend, workload)
    if refusal is None:
        return
    fitting = _OWN.get(workload.cluster.gpu.vendor)
    settable = version in _ASKED and fitting is not None
    if version in _ASKED and settings.get(_KEY) is not None:
        message = _("SGLang's attention backend under {release} is {backend}, {refusal}")
    else:
        message = _("SGLang's attention backend is {backend}, by {release}, {refusal}")
    yield report(
        RULE,
        settings,
        message.format(backend=backend, release=workload.release, refusal=refusal),
        keys=[_KEY, f"{ROLLOUT}.name"],
        overrides=[assign(settings, _KEY, fitting)] if settable else [],
    )


def _backend(settings: Settings, workload: Workload, version: str) -> str | None:
    """What verl tells SGLang, None where it says nothing."""
    if workload.generator.engine is not RolloutEngine.SGLANG:
        return None
    if version in _FIXED:
        return "fa3"
    backend = settings.get(_KEY)
    if backend is not None or version not in _ASKED:
        return None if backend is None or version not in _ASKED else str(backend)
    if version in _AMD_TOLD_APART and workload.cluster.gpu.vendor == "amd":
        return "aiter"
    newer = version in _BY_ENGINE and at_least(workload.generator.engine_version, "0.5.12")
    return "flashinfer" if newer else "fa3"


def _refusal(backend: str, workload: Workload) -> str | None:
    """Why the engine, the card or the model cannot run a backend, None where they can or nothing is known."""
    engine_version = workload.generator.engine_version
    if backend not in sglang.attention_backends(engine_version):
        return _("which SGLang {engine_version} does not know").format(engine_version=engine_version)
    if backend == "fa4" and at_least(engine_version, "0.5.5") and not at_least(engine_version, "0.5.8"):
        return _("which SGLang {engine_version} takes for prefill alone").format(
            engine_version=engine_version
        )
    if backend in _OF_BLACKWELL:
        return _refusal_of_blackwell(backend, workload)
    return _refusal_by_card(backend, workload)


def _refusal_of_blackwell(backend: str, workload: Workload) -> str | None:
    gpu, latent = workload.cluster.gpu, workload.model.latent is not None
    if latent != (backend == "trtllm_mla"):
        return _("which has no latent attention") if latent else _("which has latent attention alone")
    majors = {"10"}
    if backend == "trtllm_mla" and at_least(workload.generator.engine_version, "0.5.8"):
        majors = {"10", "12"}
    if gpu.architecture.removeprefix("sm_")[:-1] in majors:
        return None
    return _("which is for Blackwell, not for the {gpu} ({architecture})").format(
        gpu=gpu.name, architecture=gpu.architecture
    )


def _refusal_by_card(backend: str, workload: Workload) -> str | None:
    gpu = workload.cluster.gpu
    vendor = _VENDORS.get(backend, gpu.vendor)
    if vendor != gpu.vendor:
        return _("whose kernels run on cards of another vendor than the {gpu}'s").format(gpu=gpu.name)
    if backend != "fa3" or gpu.vendor == "amd":  # whose capability is counted otherwise
        return None
    major = gpu.architecture.removeprefix("sm_")[:-1]
    if major == "9" or (major == "8" and workload.model.latent is None):
        return None
    if major == "8":
        refusal = _(
            "which asserts another compute capability than that of the {gpu} ({architecture}) "
            "under latent attention"
        )
    else:
        refusal = _("which asserts another compute capability than that of the {gpu} ({architecture})")
    return refusal.format(gpu=gpu.name, architecture=gpu.architecture)
