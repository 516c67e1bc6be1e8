"""Decode with CUDA graphs

What it checks
--------------

The rollout engine launches every kernel from Python, and graphs are affordable and faster.

Why it matters
--------------

A decoding step is hundreds of short kernels.
Launched one by one they leave the GPU waiting for the host, the more so the smaller the model.
verl measured 85 s of generation without graphs and 62 s with them.

When it does not apply
----------------------

The graphs' pool, about 1 GiB outside the memory fraction, does not fit.
It stays allocated while the trainer works, asleep or not.
With a vLLM before 0.7 the KV cache stays as well, so that the memory fraction has to be one with which it fits.
Where a large model keeps each GPU busy, a fast host launches its kernels before they are due, and nothing may be gained.

Sources
-------

verl documentation, "Upgrading to vLLM 0.7" (85 s against 62 s) and performance tuning guide.
verl 0.6 turned graphs on by default.
verl 0.3.0 ``workers/rollout/vllm_rollout/vllm_rollout.py:71`` (no graphs with a cache that is freed).
"""

from math import ceil

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rollout_engine import hundredths, least_fraction, with_fraction
from tuner.serving.vllm import has_sleep_mode
from tuner.workload import Phase, RolloutEngine, Workload

RULE = Rule(
    code="ROL011",
    name="cuda-graphs",
    summary=N_("decoding runs without CUDA graphs although they fit"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Capture graphs where there is room."""
    if case.workload.generator.cuda_graphs:
        return None
    proposal = _with_graphs(case)
    if not case.pays(proposal):
        return None
    before, after = case.workload.generator.memory_fraction, proposal.generator.memory_fraction
    text = (
        _(
            "each of {layers} layers launches its kernels from the host in every decoding step; CUDA graphs fit"
        )
        if after == before
        else _(
            "each of {layers} layers launches its kernels from the host in every decoding step; CUDA graphs "
            "fit with a memory fraction of {after:.2f} instead of {before:.2f}: with them the cache stays on "
            "the card"
        )
    )
    return Finding(
        rule=RULE,
        message=text.format(layers=case.workload.model.layers, after=after, before=before),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=proposal,
    )


def _with_graphs(case: Case) -> Workload:
    """The workload with CUDA graphs, and the largest memory fraction with which a cache that stays fits."""
    rollout = case.workload.generator
    version = rollout.engine_version  # empty where nobody says, which newer ones are likelier
    if rollout.engine is not RolloutEngine.VLLM or not version or has_sleep_mode(version):
        return case.workload.with_rollout(cuda_graphs=True)
    graphs = case.workload.with_rollout(cuda_graphs=True, sleeps_with_cache=True)
    least = None if case.affords(graphs) else least_fraction(graphs)
    if least is None:
        return graphs
    smaller = range(round(hundredths(least)), ceil(hundredths(graphs)))
    fraction = case.largest(smaller, lambda value: with_fraction(graphs, value))
    return graphs if fraction is None else with_fraction(graphs, fraction)
