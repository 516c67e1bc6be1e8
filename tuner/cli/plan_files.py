"""The settings of a plan as files: what each is called, and the text of the job with its overrides.

A file has the form that the job was given in. What cannot be written into that form, and what was given as
options alone, becomes YAML with all settings that are not the release's own.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tuner.advise.combine import one_per_key
from tuner.consultation.planning import PlanAnswer
from tuner.errors import InputError, Location, TunerError
from tuner.files import read_bytes
from tuner.hardware import Cluster
from tuner.inputs.named_inputs import is_shell
from tuner.inputs.overrides import Argument
from tuner.inputs.script import is_override
from tuner.inputs.yaml_file import MAX_BYTES
from tuner.language import _
from tuner.other_base import OtherBase
from tuner.override_text import ADDS, DELETES
from tuner.plan.answer import PlannedSetting
from tuner.review.fixes.edits import CannotEditError, applied, changes
from tuner.review.fixes.plan import ScriptFile, YamlFile, editable
from tuner.review.fixes.script import LaunchScript
from tuner.trainers.placement import PlacedLaunch

if TYPE_CHECKING:
    from tuner.render.settings_view import SettingsView

_UNSAFE = re.compile(r"[^\w.-]+")
_SHELL, _YAML = ".sh", ".yaml"


class PlannedFile(Struct, frozen=True, kw_only=True):
    """One setting of a plan, and what its file is called but for the ending."""

    name: str
    setting: PlannedSetting
    needs: OtherBase | PlacedLaunch | None = None  # where another program or configuration runs it


class FileText(Struct, frozen=True, kw_only=True):
    """What is written of a setting."""

    suffix: str
    data: bytes
    words: tuple[str, ...] = ()  # that have to follow the file on a command line, as they did the user's
    settings_alone: str = ""  # why it is not in the form that the job was given in; empty where it is
    command_alone: str = (
        ""  # why it is not the user's own script with another program; empty: it is, or none is
    )
    takes_launch: bool = False  # a script that may have several
    secrets: str = ""  # which of its values look like secrets that the user's file does not have


def planned_files(answer: PlanAnswer) -> tuple[PlannedFile, ...]:
    """Every setting that a plan shows: of its GPUs, the best on others, varied, and placed elsewhere.

    Without those on which a launcher would have to start other processes than the command or script says.
    """
    launched, own = answer.job.configuration.processes_per_node, answer.job.reading.workload.cluster

    def is_started(one: PlannedFile) -> bool:
        cluster = one.setting.workload.cluster
        return launched is None or (cluster.gpus_per_node, cluster.nodes) == (launched.value, own.nodes)

    return tuple(filter(is_started, _planned_files(answer)))


def _planned_files(answer: PlanAnswer) -> Iterator[PlannedFile]:
    for place, setting in enumerate(answer.plan.settings, start=1):
        name = f"{_cluster_name(answer.plan.cluster)}-{place}"
        yield PlannedFile(name=name, setting=setting, needs=setting.needs)
    others = [row.plan for row in answer.rows if row.plan is not answer.plan]
    for plan in (*others, *([] if answer.more is None else [answer.more])):
        if plan.best is not None:
            name = f"{_cluster_name(plan.cluster)}-1"
            yield PlannedFile(name=name, setting=plan.best, needs=plan.best.needs)
    for place, variant in enumerate(answer.variants, start=1):
        if variant.plan.best is not None:
            name = f"{_cluster_name(variant.plan.cluster)}-varied-{place}"
            yield PlannedFile(name=name, setting=variant.plan.best, needs=variant.needs)
    for one in answer.placements:
        if one.setting is not None and one.needs is not None:  # colocated is the plan itself
            name = f"{_cluster_name(one.cluster)}-{one.placement.value}"
            yield PlannedFile(name=name, setting=one.setting, needs=one.needs if one.needs.program else None)


def _cluster_name(cluster: Cluster) -> str:
    """A cluster in the name of a file: ``"8xh100-sxm"``, ``"2x8xh100-sxm"``."""
    nodes = f"{cluster.nodes}x" if cluster.nodes > 1 else ""
    return f"{nodes}{cluster.gpus_per_node}x{_UNSAFE.sub('-', cluster.gpu.name)}"


def texts_of(
    setting: PlannedSetting, answer: PlanAnswer, source: str, words: Sequence[str], launch: int | None
) -> Iterator[FileText]:
    """The job with a setting: in the form that it was given in where that takes it, and as settings alone.

    Args:
        setting: what it gets.
        answer: the plan.
        source: a file, or the first word of a pasted command.
        words: what follows it.
        launch: which launch of a script is meant, from 1.

    Raises:
        InputError: the settings cannot be read again.
    """
    given, reason = answer.job.given, ""
    if given.text or given.program:
        reason = _("written there it would be read otherwise")
        try:
            yield in_its_form(setting, answer, source, words, launch)
        except CannotEditError as error:
            reason = str(error)
    yield _settings_alone(setting, source, words, launch, answer, reason)


def in_its_form(
    setting: PlannedSetting, answer: PlanAnswer, source: str, words: Sequence[str], launch: int | None
) -> FileText:
    """The user's file, or the command, with all overrides in it.

    Raises:
        CannotEditError: it cannot take them.
    """
    given = answer.job.given
    typed = [word for word in words if given.text and _is_setting(word)]
    rest = tuple(word for word in words if given.text and word not in typed)
    made = changes(one_per_key((*typed, *setting.overrides)))
    file: YamlFile | ScriptFile
    if not given.text:
        data, suffix = command_text((source,), words), _SHELL
        file = ScriptFile(script=LaunchScript(path=Path(f"plan{_SHELL}"), data=data, machine=given.machine))
    else:
        data = read_bytes(Path(given.source), most=MAX_BYTES)
        file = editable(given, data, rest, launch)
        suffix = _SHELL if is_shell(given.source, given.text) else _YAML
    after = applied(data, file.edits(made)) if made else data
    return FileText(suffix=suffix, data=after, words=rest, takes_launch=suffix == _SHELL)


def _is_setting(word: str) -> bool:
    """Whether a word is an override, which the file can have itself, and no argument of a script."""
    return is_override(word) or word.startswith((ADDS, DELETES))


def command_text(begins: Sequence[str], words: Sequence[str]) -> bytes:
    """A command as a script: how it begins, then a word on each line."""
    lines = (shlex.join(begins), *map(shlex.quote, words))
    return ("#!/usr/bin/env bash\n" + " \\\n    ".join(lines) + "\n").encode()


def _settings_alone(
    setting: PlannedSetting,
    source: str,
    words: Sequence[str],
    launch: int | None,
    answer: PlanAnswer,
    reason: str,
) -> FileText:
    """All settings that are not the release's own, whatever form they were given in.

    Raises:
        InputError: they cannot be read again.
    """
    from tuner.inputs.secrets import carried
    from tuner.render.settings_text import carried_secrets
    from tuner.render.settings_yaml import settings_yaml

    with carried():
        view = _view(setting, source, words, launch, answer)
        text = settings_yaml(view, every=False) + "\n"
        secrets = carried_secrets(view, every=False)
    return FileText(suffix=_YAML, data=text.encode(), settings_alone=reason, secrets=secrets)


def _view(
    setting: PlannedSetting, source: str, words: Sequence[str], launch: int | None, answer: PlanAnswer
) -> "SettingsView":
    """The settings of the job with its overrides, read again with what is not shown."""
    from tuner.consultation.job import configuration_of
    from tuner.inputs.reading import read_given
    from tuner.render.settings_view import settings_view

    release = answer.job.release
    try:
        given = read_given(source, words, launch=launch)
        place = Location(source=_("the plan"))
        planned = tuple(Argument(text=text, location=place) for text in setting.overrides)
        given = replace(given, arguments=(*given.arguments, *planned))
        configuration = configuration_of(given, release)
        return settings_view(given, release, configuration.on(release.version))
    except (TunerError, ValueError) as error:
        raise InputError(str(error)) from None
