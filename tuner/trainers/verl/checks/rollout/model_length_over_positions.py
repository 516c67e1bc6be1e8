"""Sequences longer than the model's positions

What it checks
--------------
``rollout.max_model_len`` or the longest prompt with the longest response above the model's ``max_position_embeddings``.
The override is the largest length that the model allows.

Why it matters
--------------
From 0.7.1 on the rollout server raises ``ValueError`` for a ``max_model_len`` above the positions, and without one it stops every response at the last position, whatever ``max_response_length`` says; 0.7.0 always does the latter.
Up to 0.6.1 the engine asserts that the positions cover prompt and response.

When it does not apply
----------------------
Where ``model.override_config`` sets a rope scaling or other positions.
Where the model was told by a longer name that contains a bundled one: what was trained from a model may take longer sequences than it.

Sources
-------
verl 0.7.0 ``workers/rollout/vllm_rollout/vllm_async_server.py:198``, 0.7.1 lines 113-120, 0.9.1 lines 1103-1110 and ``workers/rollout/sglang_rollout/async_sglang_server.py:166-173``.
verl 0.4.1 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py:124``, 0.6.1 line 177.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import MODEL, ROLLOUT
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG120",
    name="model-length-over-positions",
    summary=N_("sequences longer than the model has positions"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

_REFUSES = Releases(since="0.7.1")

GUARDS = (
    CodeGuard(
        words="max_position_embeddings prompt_length response_length",
        file="vllm_rollout",
        engine=RolloutEngine.VLLM,
        releases=Releases(until="0.7.0"),
    ),
    CodeGuard(
        words="max_position_embeddings",
        file="sglang_rollout.py",
        engine=RolloutEngine.SGLANG,
        releases=Releases(until="0.7.0"),
    ),
    *(
        CodeGuard(
            words="max_position_embeddings max_model_len",
            file=file,
            engine=RolloutEngine(engine),
            releases=_REFUSES,
        )
        for engine, file in (("vllm", "vllm_async_server"), ("sglang", "async_sglang_server"))
    ),
)
_CUTS = Releases(since="0.7.0")
_LENGTH = f"{ROLLOUT}.max_model_len"
_PROMPT, _RESPONSE = "data.max_prompt_length", "data.max_response_length"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for the length that is refused, else for the sequences that do not fit."""
    positions, tokens = workload.model.max_positions, workload.batch.sequence_tokens
    length = settings.integer(_LENGTH, minimum=1)
    if _stretched(settings) or workload.model.contained_in:
        return  # what was trained from a model may take longer sequences than it
    if version in _REFUSES and length is not None and length > positions:
        yield report(
            RULE,
            settings,
            _(
                "{key}={length} exceeds the {positions} positions of {model}: the rollout of "
                "{release} refuses to start"
            ).format(
                key=_LENGTH,
                length=length,
                positions=positions,
                model=workload.model.name,
                release=workload.release,
            ),
            keys=[_LENGTH],
            overrides=[assign(settings, _LENGTH, min(tokens, positions))],
        )
    elif tokens > positions:
        yield _too_long(settings, workload, cut=version in _CUTS)


def _too_long(settings: Settings, workload: Workload, *, cut: bool) -> Finding:
    batch, positions = workload.batch, workload.model.max_positions
    room = positions - batch.max_prompt_tokens
    what = _("stops responses early") if cut else _("refuses to start")
    return report(
        RULE,
        settings,
        _(
            "prompts of {max_prompt_tokens} and responses of {max_response_tokens} tokens exceed "
            "the {positions} positions of {model}: {release} {what}"
        ).format(
            max_prompt_tokens=batch.max_prompt_tokens,
            max_response_tokens=batch.max_response_tokens,
            positions=positions,
            model=workload.model.name,
            release=workload.release,
            what=what,
        ),
        keys=[_RESPONSE, _PROMPT],
        overrides=[assign(settings, _RESPONSE, room)] if room > 0 else [],
        severity=Severity.WARNING if cut else None,
    )


def _stretched(settings: Settings) -> bool:
    overridden = settings.section(f"{MODEL}.override_config").items()
    return any(value is not None and ("rope" in name or "position" in name) for name, value in overridden)
