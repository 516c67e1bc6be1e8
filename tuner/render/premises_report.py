"""What an answer rests on, for a program: settings, defaults, reasons, and what was left open or out."""

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from tuner.consultation.alternatives import JudgedAlternative
from tuner.consultation.result import Consultation, ProjectOption
from tuner.errors import Location
from tuner.inputs.secrets import shown_value
from tuner.inputs.settings import Origin, UnknownKey
from tuner.inputs.user_input import MissingConfiguration, OpenArgument, Remark
from tuner.memory.fitting.limits import Fitting
from tuner.render.publication import extended, publish
from tuner.trainers.key_facts import Affects
from tuner.trainers.protocol import LeftOut


class UserSetting(Origin, frozen=True, kw_only=True):
    """A key that the user set, in a file or as an override."""

    key: str
    value: Any


class OpenValue(OpenArgument, frozen=True, kw_only=True):
    """An argument of a launch script that only a run of it would tell, with the variable that settles it."""

    @property
    def variable(
        self,
    ) -> Annotated[str, Meta(description="NAME=value behind the script settles it; empty: none does")]:
        """The name of the variable."""
        return self.name


class LeftOutReport(LeftOut, frozen=True, kw_only=True):
    """A part of the job that the estimate does not count, with the place of the setting that it has it by."""

    @property
    def location(self) -> Location | None:
        """Where the setting was made."""
        return None if self.origin is None else self.origin.location


publish(UserSetting, "UserSetting", "key", "value", "layer", "location", "text")
publish(
    UnknownKey,
    "UnknownKeyReport",
    *("key", "nearest", "known_in", "location"),
    text="A key that the release does not have; it was not taken into account.",
)
publish(
    OpenValue,
    "OpenValue",
    *("key", "text", "variable", "location"),
    text="An argument of a launch script that only a run of it would tell; it was left out.",
)
publish(
    JudgedAlternative,
    "AlternativeReport",
    *("test", "is_program", "holds", "variable", "location", "program", "settings", "open_keys"),
    *("verdict", "refused_by", "worst_phase", "worst_bytes", "unread"),
    text="A job that a launch script would start instead, if a test that nobody knows ended otherwise.",
)
publish(Remark, "ScriptRemark", "text", "location")
publish(
    MissingConfiguration,
    "MissingConfiguration",
    text="A configuration that a launch names and that is not here.",
)
publish(
    LeftOutReport,
    "LeftOutReport",
    *("name", "key", "value", "location", "reason", "affects"),
    text="A part of the job that the estimate does not count, and the setting by which the job has it.",
    types={
        "name": Annotated[str, Meta(description='completes "the job fits, without ..."')],
        "value": Any,
        "affects": Annotated[Affects, Meta(description="what is missing from the answer")],
    },
)
publish(ProjectOption, "ProjectSetting", types={"value": Any})


class PremisesReport(Struct, frozen=True, kw_only=True):
    """What the answer rests on, and why."""

    source: str
    trainer: str
    release: str
    release_reason: str
    release_likely: Annotated[
        tuple[str, ...], Meta(description="of which the release is a guess; empty where something names it")
    ] = ()
    checkout: Annotated[
        str | None,
        Meta(
            description="the version of the trainer's own tree, be it a checkout or installed, where the "
            "configuration is read there; the checks are those of the release"
        ),
    ] = None
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
        tuple[ProjectOption, ...], Meta(description="options that the settings of the project give")
    ] = ()
    resting_on_defaults: Annotated[
        dict[str, Any], Meta(description="decisive keys that nobody set, with the defaults used")
    ]
    fitting_values: Annotated[
        dict[str, Fitting],
        Meta(description="of these keys: the values with which every phase fits"),
    ] = field(default_factory=dict)
    unknown_keys: tuple[UnknownKey, ...]
    keys_of_copy: Annotated[
        tuple[str, ...],
        Meta(
            description="keys that the user sets and that a copy of the trainer has alone: what they "
            "do is not modelled"
        ),
    ] = ()
    open_values: tuple[OpenValue, ...] = ()
    lost_overrides: Annotated[
        tuple[Remark, ...], Meta(description="of a launch script: these never reach the trainer")
    ] = ()
    script_remarks: tuple[Remark, ...] = ()
    missing_configuration: Annotated[
        MissingConfiguration | None,
        Meta(
            description="that the launch names and that is not here: all figures are those of the trainer's "
            "own with what the launch sets; null where there is none"
        ),
    ] = None
    open_defaults: Annotated[
        dict[str, Any],
        Meta(description="decisive keys that are open, with the defaults that are taken meanwhile"),
    ] = field(default_factory=dict)
    alternatives: Annotated[
        tuple[JudgedAlternative, ...],
        Meta(description="of a launch script: jobs that it would start instead, the first three judged"),
    ] = ()
    not_followed: Annotated[
        tuple[Remark, ...],
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
        release_likely=() if answer.guess is None else answer.guess.plausible,
        checkout=answer.loaded.base.checkout or None,
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
        project_settings=answer.from_project,
        resting_on_defaults=dict(answer.resting),
        fitting_values=dict(answer.fitting),
        unknown_keys=answer.settings.unknown,
        keys_of_copy=answer.loaded.keys_of_copy(),
        open_values=tuple(extended(OpenValue, value) for value in answer.given.unsettled),
        lost_overrides=answer.given.lost,
        script_remarks=answer.given.remarks,
        missing_configuration=answer.given.missing,
        open_defaults=dict(answer.open_defaults),
        alternatives=answer.alternatives,
        not_followed=answer.given.not_followed,
    )


def _settings(answer: Consultation) -> tuple[UserSetting, ...]:
    settings = (answer.settings.setting(key) for key in answer.settings.user_keys)
    return tuple(
        extended(
            UserSetting,
            setting.origin,
            key=setting.key,
            value=answer.settings.shown(setting.key, setting.value),
            text=answer.settings.shown_override(setting.origin.text),
        )
        for setting in settings
        if setting is not None
    )


def left_out_report(part: LeftOut) -> LeftOutReport:
    """A part of the job that is not counted."""
    return extended(LeftOutReport, part, value=shown_value(part.key, part.value, known=True))
