"""CPU offload that loses gradients of fine-tuning

What it checks
--------------
``model.fsdp_config.cpu_offload`` and ``offload_params`` of ``verl.trainer.fsdp_sft_trainer`` under ``model.strategy=fsdp``, where a rank has more than one micro-batch in a step.

Why it matters
--------------
FSDP1 keeps an offloaded gradient on the host, where the next micro-batch's replaces it: outside ``no_sync()``, which the trainer does not use, nothing adds them up.
The optimizer then steps with the gradient of the last micro-batch alone, and nothing says so.

When it does not apply
----------------------
A rank's share of the batch is one micro-batch.
Under ``model.strategy=fsdp2`` verl hands on a policy that FSDP2 does not know.

Sources
-------
torch ``distributed/fsdp/fully_sharded_data_parallel.py`` (the warning on gradient accumulation), ``_flat_param.py`` (``prepare_gradient_for_backward``).
verl 0.4.1 to 0.7.0 ``trainer/fsdp_sft_trainer.py`` (``_build_model_optimizer``, ``training_step``).
"""

from collections.abc import Iterator

from tuner.batching import micro_batches
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.programs import Program
from tuner.workload import Workload

RULE = Rule(
    code="CFG184",
    name="offload-drops-gradients",
    summary=N_("CPU offload under FSDP1 with several micro-batches in a step"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)

PROGRAMS = (Program.SFT,)

_KEY = "model.fsdp_config.cpu_offload"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding where gradients are to be added up on the host."""
    count = micro_batches(workload.batch, workload.actor_update)
    if workload.actor.engine.streamed_offload and count > 1:
        yield report(
            RULE,
            settings,
            _(
                "a rank has {count:,} micro-batches in a step, and with {key}=True {release} "
                "trains by the gradient of the last one alone"
            ).format(count=count, key=_KEY, release=workload.release),
            keys=[_KEY],
            overrides=[assign(settings, _KEY, False)],
        )
