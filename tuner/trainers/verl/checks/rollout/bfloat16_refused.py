"""A rollout in bfloat16 on a card that has none

What it checks
--------------
``rollout.dtype`` under vLLM against the card: NVIDIA's below compute capability 8.0, such as V100 and T4, compute in float16 and not in bfloat16.
verl asks for bfloat16 where nothing is set.

Why it matters
--------------
vLLM raises ``ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0`` as it starts, so that no job does.

When it does not apply
----------------------
SGLang, which takes float16 by itself there.
The trainer's own passes are not judged: PyTorch computes bfloat16 on such cards without their tensor cores, and FlashAttention refuses them, so that ``attn_implementation`` has to be another one.

Sources
-------
vLLM 0.8.5 ``worker/worker.py`` (``_check_if_gpu_supports_dtype``), 0.11.0 ``platforms/cuda.py`` (``check_if_supports_dtype``).
verl 0.9.1 ``workers/config/rollout.py`` (``dtype``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG187",
    name="bfloat16-refused",
    summary=N_("a rollout in bfloat16 on a card that has none"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

REFUSED_BY = RefusedBy.ENGINE

_KEY = f"{ROLLOUT}.dtype"
_SPELLINGS = ("bfloat16", "bf16")


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where vLLM refuses the number format on the card."""
    gpu = workload.cluster.gpu
    dtype = settings.get(_KEY)
    if gpu.bfloat16 or workload.generator.engine is not RolloutEngine.VLLM or dtype not in _SPELLINGS:
        return
    message = _("vLLM refuses {dtype} on the {gpu} ({architecture}), which computes in float16 alone")
    if not settings.is_set(_KEY):
        message = _(
            "vLLM refuses {dtype}, by {release}, on the {gpu} ({architecture}), which computes in float16 alone"
        )
    yield report(
        RULE,
        settings,
        message.format(dtype=dtype, release=workload.release, gpu=gpu.name, architecture=gpu.architecture),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, "float16")],
    )
