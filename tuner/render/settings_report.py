"""The machine-readable settings: structs, published as a JSON Schema."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from tuner import __version__
from tuner.errors import Location
from tuner.inputs.resolution import ABSENT, Resolved
from tuner.inputs.settings import Layer
from tuner.render.json_text import json_text
from tuner.render.premises_report import OpenValue, ScriptRemark
from tuner.render.report_values import SCHEMA_VERSION, InputPlace, SchemaVersion
from tuner.render.settings_view import SettingsView


class ResolvedSetting(Struct, frozen=True, kw_only=True):
    """One key with its value and where that comes from."""

    key: str
    value: Annotated[Any, Meta(description="resolved; what is a secret is the word hidden")]
    differs: Annotated[bool, Meta(description="from what the release has there by itself")]
    known_to_release: bool
    default: Annotated[
        Any, Meta(description="the release's own value, resolved; null where it has no such key")
    ]
    layer: Layer
    location: InputPlace | None
    follows: Annotated[
        tuple[str, ...], Meta(description="the keys that the release takes the value from by itself")
    ]


class SettingsReport(Struct, frozen=True, kw_only=True):
    """What ``tuner config`` says of one configuration."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    tuner_version: str
    source: str
    trainer: str
    release: str
    release_reason: str
    base: Annotated[str, Meta(description="the release's configuration that the settings are laid on")]
    settings: Annotated[
        tuple[ResolvedSetting, ...], Meta(description="those that differ, or all where --all asks for them")
    ]
    deleted: Annotated[
        tuple[str, ...], Meta(description="keys of the release that the settings no longer have")
    ]
    unknown: Annotated[
        tuple[OpenValue, ...],
        Meta(
            description="keys whose values only a run of the script would tell, with those that follow them"
        ),
    ]
    lost_overrides: Annotated[
        tuple[ScriptRemark, ...], Meta(description="of a launch script: these never reach the trainer")
    ]
    script_remarks: tuple[ScriptRemark, ...]
    not_followed: Annotated[
        tuple[ScriptRemark, ...],
        Meta(description="of a launch script: what is not run, and what of the reading rests on it"),
    ] = ()


def settings_json(view: SettingsView, *, every: bool) -> str:
    """The settings as JSON."""
    written = SettingsReport(
        tuner_version=__version__,
        source=view.given.source,
        trainer=view.loaded.trainer.name,
        release=view.loaded.version,
        release_reason=view.release.reason,
        base=view.loaded.base.name,
        settings=tuple(_setting(leaf) for leaf in view.shown(every=every)),
        deleted=view.deleted,
        unknown=tuple(
            OpenValue(key=key, text=argument.text, variable=argument.name, location=_place(argument.location))
            for key, argument in view.unknown
        ),
        lost_overrides=tuple(
            ScriptRemark(text=lost.text, location=_place(lost.location)) for lost in view.given.lost
        ),
        script_remarks=tuple(
            ScriptRemark(text=remark.text, location=_place(remark.location)) for remark in view.given.remarks
        ),
        not_followed=tuple(
            ScriptRemark(text=remark.text, location=_place(remark.location))
            for remark in view.given.not_followed
        ),
    )
    return json_text(written)


def _setting(leaf: Resolved) -> ResolvedSetting:
    location = leaf.origin.location
    return ResolvedSetting(
        key=leaf.key,
        value=leaf.value,
        differs=leaf.differs,
        known_to_release=leaf.default is not ABSENT,
        default=None if leaf.default is ABSENT else leaf.default,
        layer=leaf.origin.layer,
        location=None if location is None else _place(location),
        follows=leaf.follows,
    )


def _place(location: Location) -> InputPlace:
    return InputPlace(source=location.source, line=location.line, column=location.column)
