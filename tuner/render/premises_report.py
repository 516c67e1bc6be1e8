"""What an answer rests on, for a program: settings, defaults, reasons, and what was left open or out."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from tuner.consultation.result import Consultation, ProjectOption
from tuner.inputs.secrets import shown_value
from tuner.inputs.settings import Layer
from tuner.inputs.user_input import LostOverride, Remark
from tuner.memory.fitting.limits import Fitting
from tuner.render.report_values import InputPlace
from tuner.trainers.key_facts import Affects
from tuner.trainers.protocol import LeftOut


class UserSetting(Struct, frozen=True, kw_only=True):
    """A key that the user set, in a file or as an override."""

    key: str
    value: Any
    layer: Layer
    location: InputPlace | None
    text: str


class UnknownKeyReport(Struct, frozen=True, kw_only=True):
    """A key that the release does not have; it was not taken into account."""

    key: str
    nearest: str | None
    known_in: Annotated[tuple[str, ...], Meta(description="bundled releases that have this key")]
    location: InputPlace


class OpenValue(Struct, frozen=True, kw_only=True):
    """An argument of a launch script that only a run of it would tell; it was left out."""

    key: Annotated[str, Meta(description="empty where not even the key is known")]
    text: Annotated[str, Meta(description="as the script has it")]
    variable: Annotated[str, Meta(description="NAME=value behind the script settles it; empty: none does")]
    location: InputPlace


class ScriptRemark(Struct, frozen=True, kw_only=True):
    """Something that was taken to be so when a launch script was followed."""

    text: str
    location: InputPlace


class LeftOutReport(Struct, frozen=True, kw_only=True):
    """A part of the job that the estimate does not count, and the setting by which the job has it."""

    name: Annotated[str, Meta(description='completes "the job fits, without ..."')]
    key: str
    value: Any
    location: InputPlace | None
    reason: str
    affects: Annotated[Affects, Meta(description="what is missing from the answer")]


class ProjectSetting(Struct, frozen=True, kw_only=True):
    """What the settings of a project say in place of an option."""

    option: str
    value: Any
    location: InputPlace


class PremisesReport(Struct, frozen=True, kw_only=True):
    """What the answer rests on, and why."""

    source: str
    trainer: str
    release: str
    release_reason: str
    engine: Annotated[
        str | None, Meta(description="the rollout engine with its version; null for transformers")
    ] = None
    engine_reason: str | None = None
    model_reason: str
    model_named_in: Annotated[
        str | None,
        Meta(description="a longer name that contains the model's; null where the model is named itself"),
    ] = None
    parameters: int
    active_parameters: int
    critic_parameters: int | None
    gpu_reason: str
    gpu_assumed: bool
    gpus_reason: str
    headroom: Annotated[float, Meta(description="share of the card that proposals leave free")]
    settings: tuple[UserSetting, ...]
    project_settings: Annotated[
        tuple[ProjectSetting, ...], Meta(description="options that the settings of the project give")
    ] = ()
    resting_on_defaults: Annotated[
        dict[str, Any], Meta(description="decisive keys that nobody set, with the defaults used")
    ]
    fitting_values: Annotated[
        dict[str, Fitting],
        Meta(description="of these keys: the values with which every phase fits"),
    ] = field(default_factory=dict)
    unknown_keys: tuple[UnknownKeyReport, ...]
    open_values: tuple[OpenValue, ...] = ()
    lost_overrides: Annotated[
        tuple[ScriptRemark, ...], Meta(description="of a launch script: these never reach the trainer")
    ] = ()
    script_remarks: tuple[ScriptRemark, ...] = ()
    not_followed: Annotated[
        tuple[ScriptRemark, ...],
        Meta(description="of a launch script: what is not run, and what of the reading rests on it"),
    ] = ()


def premises_of(answer: Consultation) -> PremisesReport:
    """What an answer rests on."""
    workload = answer.advice.workload
    critic, rollout_engine = workload.critic, answer.rollout_engine
    return PremisesReport(
        source=answer.given.source,
        trainer=workload.release.trainer,
        release=workload.release.version,
        release_reason=answer.release_reason,
        engine=None if rollout_engine is None else f"{rollout_engine.name} {rollout_engine.version}",
        engine_reason=None if rollout_engine is None else rollout_engine.reason,
        model_reason=answer.model_reason,
        model_named_in=workload.model.contained_in or None,
        parameters=workload.model.parameters,
        active_parameters=workload.model.active_parameters,
        critic_parameters=critic.model.parameters if critic is not None else None,
        gpu_reason=answer.gpu_reason,
        gpu_assumed=answer.gpu_assumed,
        gpus_reason=answer.gpus_reason,
        headroom=answer.advice.headroom,
        settings=_settings(answer),
        project_settings=tuple(map(project_setting, answer.from_project)),
        resting_on_defaults=dict(answer.resting),
        fitting_values=dict(answer.fitting),
        unknown_keys=tuple(
            UnknownKeyReport(
                key=unknown.key,
                nearest=unknown.nearest,
                known_in=unknown.known_in,
                location=InputPlace.of(unknown.location),
            )
            for unknown in answer.settings.unknown
        ),
        open_values=tuple(
            OpenValue(
                key=value.key, text=value.text, variable=value.name, location=InputPlace.of(value.location)
            )
            for value in answer.given.unsettled
        ),
        lost_overrides=_remarks(answer.given.lost),
        script_remarks=_remarks(answer.given.remarks),
        not_followed=_remarks(answer.given.not_followed),
    )


def _remarks(remarks: Sequence[LostOverride] | Sequence[Remark]) -> tuple[ScriptRemark, ...]:
    return tuple(
        ScriptRemark(text=remark.text, location=InputPlace.of(remark.location)) for remark in remarks
    )


def _settings(answer: Consultation) -> tuple[UserSetting, ...]:
    settings = (answer.settings.setting(key) for key in answer.settings.user_keys)
    return tuple(
        UserSetting(
            key=setting.key,
            value=answer.settings.shown(setting.key, setting.value),
            layer=setting.origin.layer,
            location=InputPlace.of(setting.origin.location) if setting.origin.location is not None else None,
            text=answer.settings.shown_override(setting.origin.text),
        )
        for setting in settings
        if setting is not None
    )


def left_out_report(part: LeftOut) -> LeftOutReport:
    """A part of the job that is not counted."""
    location = None if part.origin is None else part.origin.location
    return LeftOutReport(
        name=part.name,
        key=part.key,
        value=shown_value(part.key, part.value, known=True),
        location=None if location is None else InputPlace.of(location),
        reason=part.reason,
        affects=part.affects,
    )


def project_setting(said: ProjectOption) -> ProjectSetting:
    """What the settings of a project say in place of an option."""
    return ProjectSetting(option=said.option, value=said.value, location=InputPlace.of(said.location))
