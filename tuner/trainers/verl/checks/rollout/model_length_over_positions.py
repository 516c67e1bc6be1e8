"""Sequences longer than the model's positions

What it checks
--------------
``rollout.max_model_len`` or the longest prompt with the longest response above the model's ``max_position_embeddings``.
Up to 0.6.1 it is the length that vLLM is built for; 0.4 has SGLang's rollout assert the same.
The override is the largest length that the model allows.
Under vLLM the message names the other way: more positions by ``model.override_config.max_position_embeddings``, which the trainer's test reads, and ``VLLM_ALLOW_LONG_MAX_MODEL_LEN=1``, without which vLLM refuses a length beyond the model's own ``config.json``.
It is the override where the prompts alone take all positions.

Why it matters
--------------
From 0.7.1 on the rollout server raises ``ValueError`` for a ``max_model_len`` above the positions, and without one it stops every response at the last position, whatever ``max_response_length`` says; 0.7.0 always does the latter.
Up to 0.6.1 the rollout asserts that the positions cover prompt and response, and vLLM is given ``max_model_len`` as it is and raises ``ValueError`` for one above them.

When it does not apply
----------------------
Where ``model.override_config`` sets a rope scaling or other positions.
Up to 0.6.1 ``max_model_len`` is not compared where ``VLLM_ALLOW_LONG_MAX_MODEL_LEN`` is set, where ``engine_kwargs.vllm.hf_overrides`` gives vLLM another configuration of the model, and where servers take the length of a sequence instead (0.6 with ``rollout.mode=async``); SGLang from 0.5.0 on is not told it, and 0.7.0 tells neither.
A program that the script runs before, and that gets the model's path, may give its ``config.json`` more positions or a rope scaling, and so may what reads a variable of the launch that has one: it is a warning then.
Where the model was told by a longer name that contains a bundled one: what was trained from a model may take longer sequences than it.

Sources
-------
verl 0.7.0 ``workers/rollout/vllm_rollout/vllm_async_server.py:198``, 0.7.1 lines 113-120, 0.9.1 lines 1103-1110 and ``workers/rollout/sglang_rollout/async_sglang_server.py:166-173``.
verl 0.4.1 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py:124`` and 159, 0.6.1 lines 177 and 241; 0.4.1 ``workers/rollout/sglang_rollout/sglang_rollout.py:358``.
verl 0.5.0 ``workers/rollout/vllm_rollout/vllm_async_server.py:220-255``, 0.6.1 line 155.
verl 0.4.1 ``workers/fsdp_workers.py:234-235``, 0.6.0 and 0.7.0 ``workers/config/model.py:135-140``: what ``override_config`` sets is in the configuration that is tested, under ``model_config`` with Megatron.
vLLM 0.4.2 ``config.py`` and 0.11.0 ``config/model.py`` (``_get_and_verify_max_len``).
"""

from collections.abc import Iterator

from msgspec.structs import replace

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.serving.names import NAMES
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import MODEL, ROLLOUT
from tuner.trainers.verl.given_environment import given_variables
from tuner.trainers.verl.rollout_facts import has_own_positions
from tuner.workload import Backend, RolloutEngine, Workload

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
_HANDS_ON = Releases(until="0.7.0")  # what vLLM then refuses

GUARDS = (
    CodeGuard(
        words="max_position_embeddings prompt_length response_length",
        key="max_response_length",
        file="vllm_rollout",
        engine=RolloutEngine.VLLM,
        releases=_HANDS_ON,
    ),
    CodeGuard(
        words="inference_engine LLM max_model_len",
        key="max_model_len",
        file="vllm_rollout",
        fails=True,
        engine=RolloutEngine.VLLM,
        releases=_HANDS_ON,
    ),
    CodeGuard(
        words="max_position_embeddings",
        file="sglang_rollout",
        lacks="SGLangHttpServer",
        engine=RolloutEngine.SGLANG,
        releases=Releases(until="0.7.0"),
    ),
    *(
        CodeGuard(
            words="max_position_embeddings max_model_len",
            file=f"{engine}_rollout",
            lacks="SGLangRollout",
            engine=RolloutEngine(engine),
            releases=_REFUSES,
        )
        for engine in ("vllm", "sglang")
    ),
)
_CUTS = Releases(since="0.7.0")
_SGLANG_ASSERTS = Releases(since="0.4.0", until="0.5.0")  # that the positions cover max_model_len
_VARIABLE = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
_ALLOWED = f"{_VARIABLE}=1"
_SCALING = "rope_scaling"  # in a variable of the launch
_OVERRIDDEN = f"{ROLLOUT}.engine_kwargs.vllm.hf_overrides"
_LENGTH = f"{ROLLOUT}.max_model_len"
_PROMPT, _RESPONSE = "data.max_prompt_length", "data.max_response_length"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for the length that is refused, else for the sequences that do not fit."""
    for finding in _findings(settings, workload, version):
        yield _unless_changed(finding, settings)


def _unless_changed(finding: Finding, settings: Settings) -> Finding:
    """The finding, no refusal where a program before the launch may have changed the model."""
    path = str(settings.get(f"{MODEL}.path"))
    writer = next((program for program in settings.earlier if program.is_given(path)), None)
    scaling = next((one.name for one in settings.environment if _SCALING in (one.value or "")), None)
    if writer is not None:
        message = _(
            "{message}, unless {program}, which gets the model's path before, changes its config.json"
        )
        message = message.format(message=finding.message, program=writer.name)
    elif scaling is not None:
        message = _("{message}, unless what reads {variable} gives the model the rope scaling in it")
        message = message.format(message=finding.message, variable=scaling)
    else:
        return finding
    return replace(finding, severity=Severity.WARNING, message=message, overrides=())


def _findings(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    positions, tokens = workload.model.max_positions, workload.batch.sequence_tokens
    length = settings.integer(_LENGTH, minimum=1)
    if has_own_positions(settings) or workload.model.contained_in:
        return  # what was trained from a model may take longer sequences than it
    if length is not None and length > positions and _compares(settings, workload, version):
        yield report(
            RULE,
            settings,
            _refusal(version).format(
                key=_LENGTH,
                length=length,
                positions=positions,
                model=workload.model.name,
                engine=NAMES.get(workload.generator.engine, ""),
                release=workload.release,
            ),
            keys=[_LENGTH],
            overrides=[lifting := _lifting(settings, workload, length)],
            notes=_notes(lifting),
        )
    elif tokens > positions:
        yield _too_long(settings, workload, cut=version in _CUTS)


def _lifting(settings: Settings, workload: Workload, length: int) -> str:
    """The override that has the engine start: a shorter length, but where the prompts alone are longer."""
    positions, more = workload.model.max_positions, _more_positions(settings, workload, length)
    if more and workload.batch.max_prompt_tokens >= positions:
        return more
    return assign(settings, _LENGTH, min(workload.batch.sequence_tokens, positions))


def _notes(override: str) -> list[str]:
    if "max_position_embeddings" not in override:
        return []
    return [_("vLLM takes it only with {allowed} in the environment").format(allowed=_ALLOWED)]


def _refusal(version: str) -> str:
    """What is said of the length, by who compares it with the positions."""
    if version in _REFUSES:
        return _(
            "{key}={length} exceeds the {positions} positions of {model}: the rollout of "
            "{release} refuses to start"
        )
    return _(
        "{key}={length} exceeds the {positions} positions of {model}: {engine}, which {release} "
        "builds for that length, refuses to start"
    )


def _compares(settings: Settings, workload: Workload, version: str) -> bool:
    """Whether the length is compared with the positions: by the trainer's rollout, or by vLLM itself."""
    if version in _REFUSES:
        return True
    if workload.generator.engine is RolloutEngine.SGLANG:
        return version in _SGLANG_ASSERTS
    if version not in _HANDS_ON or workload.generator.engine is not RolloutEngine.VLLM:
        return False
    is_built_for = workload.generator.max_model_tokens == settings.integer(_LENGTH, minimum=1)
    return is_built_for and not (
        _VARIABLE in given_variables(settings, version) or settings.section(_OVERRIDDEN)
    )


def _too_long(settings: Settings, workload: Workload, *, cut: bool) -> Finding:
    batch, positions = workload.batch, workload.model.max_positions
    room = positions - batch.max_prompt_tokens
    more = _more_positions(settings, workload)
    overrides = [assign(settings, _RESPONSE, room)] if room > 0 else [more] if more else []
    return report(
        RULE,
        settings,
        _sentence(more=bool(more) and room > 0).format(
            max_prompt_tokens=batch.max_prompt_tokens,
            max_response_tokens=batch.max_response_tokens,
            positions=positions,
            model=workload.model.name,
            release=workload.release,
            what=_("stops responses early") if cut else _("refuses to start"),
            more=more,
            allowed=_ALLOWED,
        ),
        keys=[_RESPONSE, _PROMPT],
        overrides=overrides,
        severity=Severity.WARNING if cut else None,
        notes=_notes(more) if more in overrides else (),
    )


def _sentence(*, more: bool) -> str:
    """What is found, with the way to more positions where another one is proposed."""
    if more:
        return _(
            "prompts of {max_prompt_tokens} and responses of {max_response_tokens} tokens exceed "
            "the {positions} positions of {model} (more by {more} and {allowed} in the environment): "
            "{release} {what}"
        )
    return _(
        "prompts of {max_prompt_tokens} and responses of {max_response_tokens} tokens exceed "
        "the {positions} positions of {model}: {release} {what}"
    )


def _more_positions(settings: Settings, workload: Workload, length: int = 0) -> str:
    """The override that gives the model as many positions as are asked for; empty where none does."""
    if workload.rollout is None or workload.rollout.engine is not RolloutEngine.VLLM:
        return ""
    section = f"{MODEL}.override_config"
    if workload.actor.engine.backend is Backend.MEGATRON:
        section = f"{section}.model_config"
    return assign(settings, f"{section}.max_position_embeddings", max(workload.batch.sequence_tokens, length))
