"""Decode with CUDA graphs

What it checks
--------------

The rollout engine launches every kernel from Python, and graphs are affordable and faster.
A smaller memory fraction makes room for their pool where the card has none else.

Why it matters
--------------

A decoding step is hundreds of short kernels.
Launched one by one they leave the GPU waiting for the host, the more so the smaller the model.
verl measured 85 s of generation without graphs and 62 s with them.

When it does not apply
----------------------

The graphs' pool, about 1 GiB outside the memory fraction, does not fit, and a cache that leaves room for it is too small to be faster.
It stays allocated while the trainer works, asleep or not.
With a vLLM before 0.7 verl moves the weights to the host and back in every step, to other addresses than those that the graphs, captured once, read.
With ``TORCH_COMPILE_DISABLE=1`` or ``TORCHDYNAMO_DISABLE=1`` vLLM 0.8 to 0.10 captures none.
Where a large model keeps each GPU busy, a fast host launches its kernels before they are due, and nothing may be gained.

Sources
-------

verl documentation, "Upgrading to vLLM 0.7" (85 s against 62 s) and performance tuning guide.
verl 0.6 turned graphs on by default.
verl 0.2.0 to 0.4.1 ``third_party/vllm/vllm_v_0_6_3/worker.py`` (``offload_model_weights``) and ``dtensor_weight_loaders.py`` (``load_dtensor_weights`` ends in ``.cuda()``), as those of 0.4.2 and 0.5.4.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rollout_engine import affordable
from tuner.serving.vllm import has_sleep_mode
from tuner.workload import Phase, Rollout, RolloutEngine, Workload

RULE = Rule(
    code="ROL011",
    name="cuda-graphs",
    summary=N_("decoding runs without CUDA graphs although they fit"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Capture graphs where there is room and the weights stay where the graphs read them."""
    rollout = case.workload.generator
    if rollout.cuda_graphs or _moves_weights(rollout):
        return None
    proposal = affordable(case, case.workload.with_rollout(cuda_graphs=True))
    if proposal is None or not case.faster(proposal):
        return None
    lowered = proposal.generator.memory_fraction != rollout.memory_fraction
    return Finding(
        rule=RULE,
        message=_(
            "each of {layers} layers launches its kernels from the host in every decoding step; CUDA graphs fit"
        ).format(layers=case.workload.model.layers),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=proposal,
        notes=(_fraction_note(proposal, rollout.memory_fraction),) if lowered else (),
    )


def _fraction_note(proposal: Workload, before: float) -> str:
    return _(
        "a memory fraction of {fraction:.2f} instead of {before:.2f} makes room for the pool of the graphs"
    ).format(fraction=proposal.generator.memory_fraction, before=before)


def _moves_weights(rollout: Rollout) -> bool:
    """Whether the trainer takes the engine's weights away itself and brings them back to other addresses."""
    version = rollout.engine_version  # empty where nobody says, which newer ones are likelier
    return rollout.engine is RolloutEngine.VLLM and bool(version) and not has_sleep_mode(version)
