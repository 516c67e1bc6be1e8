"""Capture CUDA graphs of SGLang for as many sequences as run at once

What it checks
--------------

More sequences run at once than SGLang's largest CUDA graph is captured for, and a larger one is affordable and faster.
The proposal is the smallest size of the engine's list that all of them fit.

Why it matters
--------------

By itself SGLang captures graphs by the card's memory: up to 256 sequences on cards from 60 GiB on, 512 from four GPUs of tensor parallelism on, and 160 in the versions up to 0.4.6.
A decoding step of more sequences has no graph, and the host launches each of its kernels.
That lasts until enough of them have ended.

When it does not apply
----------------------

The graphs' memory, outside the engine's fraction, does not fit.
A large model keeps the GPU busy for longer than the host takes to launch its kernels.
Releases that do not hand SGLang the argument, verl up to 0.6.0 and the synchronous rollout of 0.6.1.

Sources
-------

SGLang 0.5.5 to 0.5.12, ``srt/server_args.py`` (``_handle_gpu_memory_settings``, ``_generate_cuda_graph_batch_sizes``); 0.5.2, ``srt/model_executor/cuda_graph_runner.py`` (``can_run``).
verl 0.7.1, ``workers/rollout/sglang_rollout/async_sglang_server.py:161-204``.
"""

from math import ceil

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rollout_engine import sequences_per_replica
from tuner.serving import sglang
from tuner.serving.graphs import largest_graph
from tuner.workload import Phase, RolloutEngine

RULE = Rule(
    code="ROL027",
    name="graphs-below-sequences",
    summary=N_("more sequences run at once than SGLang's largest CUDA graph has"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Capture sizes up to the sequences that run where that pays."""
    workload, rollout = case.workload, case.workload.generator
    largest = largest_graph(rollout)
    told = rollout.engine_version and rollout.graphs_adjustable  # the sizes are those of a version
    if rollout.engine is not RolloutEngine.SGLANG or not told or not largest:
        return None
    running = min(sequences_per_replica(workload), case.rollout.concurrent_sequences)
    running = min(ceil(running / rollout.data_parallel), rollout.max_sequences)
    if running <= largest:
        return None
    sizes = sglang.capture_sizes_for(rollout.engine_version, running)
    proposal = workload.with_rollout(capture_sizes=sizes)
    if not case.pays(proposal):
        return None
    return Finding(
        rule=RULE,
        message=_(
            "{sequences} run at once, and SGLang's largest CUDA graph is for {largest}: the host launches "
            "each kernel of a larger step"
        ).format(sequences=counted(running, "sequence"), largest=largest),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=proposal,
    )
