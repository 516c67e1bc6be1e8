"""``tuner plan --write``: each setting of a plan as a file, beside the premises that it is read with.

The folder gets a settings file, so that ``tuner check`` and ``tuner diff`` read what lies in it on the card,
the release and the lengths of the plan. Every file is read back, and stays only where it is the same job.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct

from tuner.check.project_settings import SettingsNamed, project_for, with_project_settings
from tuner.cli.plan_files import FileText, PlannedFile, planned_files, texts_of
from tuner.consultation.consult import job_of
from tuner.consultation.planning import PlanAnswer
from tuner.consultation.premises import OPTIONS, Premises
from tuner.errors import InputError, Location, TunerError
from tuner.files import is_there, read_bytes
from tuner.gpus import counted, find_gpu
from tuner.inputs.yaml_file import MAX_BYTES
from tuner.language import _, ngettext
from tuner.render.terminal import plain, write
from tuner.review.project.discovery import OWN_NAMES, nearest
from tuner.review.project.schema import PREMISES
from tuner.writing import not_written, write_new, write_over

_HEAD = "# Premises of the plans in this folder, written by tuner plan."
_OF_CLUSTERS = ("gpu", "gpus_per_node", "nodes")  # which differ from file to file
_PATHS = ("model", "critic_model", "reward_model")  # that may name a folder


class PlanSource(Struct, frozen=True, kw_only=True):
    """What a plan was made of, as the command line has it."""

    config: str
    words: tuple[str, ...]
    premises: Premises  # with those of the project
    cards: tuple[str | None, ...]
    named: SettingsNamed


class _Proved(Struct, frozen=True, kw_only=True):
    """A file that is read as the job that it is meant to be."""

    name: str
    text: FileText
    premises: Mapping[str, Any]


def write_plans(folder: Path, answer: PlanAnswer, source: PlanSource, *, force: bool) -> None:
    """Write every setting that a plan shows into a folder.

    Args:
        folder: made where it is not there.
        answer: the plan.
        source: what it was made of.
        force: write over files that are there, but for the user's own.

    Raises:
        InputError: a file is there already, cannot be written, or would not be read as it is meant.
    """
    planned = planned_files(answer)
    if not planned:
        write(sys.stderr, _("nothing is written: no setting fits, or none on what the launcher starts"))
        return
    folder, settings = Path(os.path.abspath(folder)), folder / OWN_NAMES[0]  # noqa: PTH100 - links stay
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".tuner-plan-", dir=folder.parent) as beside:
            proved = [_proved(Path(beside), one, answer, source) for one in planned]
    except OSError as error:
        raise not_written(folder, error) from None
    _expect_free([folder / one.name for one in proved], settings, source, force=force)
    _put(settings, _settings_text(proved, folder, source).encode(), force=force)
    for one in proved:
        _put(folder / one.name, one.text.data, force=force)
    _tell(settings.parent, proved, source)


def _proved(folder: Path, planned: PlannedFile, answer: PlanAnswer, source: PlanSource) -> _Proved:
    """A setting in the first form in which a file in this folder is read as what was planned.

    Raises:
        InputError: there is none.
    """
    setting, launch = planned.setting, source.premises.launch
    if planned.needs is None:
        texts = texts_of(setting, answer, source.config, source.words, launch)
    else:
        from tuner.cli.plan_programs import program_texts  # few plans have one

        texts = program_texts(planned, answer, source.config, source.words, launch)
    for text in texts:
        premises = _premises(planned, answer, source)
        one = _Proved(name=planned.name + text.suffix, text=text, premises=premises)
        file, settings = folder / one.name, folder / f"{one.name}.toml"  # a settings file is read once
        file.write_bytes(text.data)
        settings.write_text(_settings_text([one], folder, source), encoding="utf-8")
        if _is_read(file, one, settings, source, planned):
            return one
    raise InputError(
        _("a file of it would not be read as intended"),
        location=Location(source=planned.name),
        hint=_("paste the overrides instead"),
    )


def _is_read(file: Path, one: _Proved, settings: Path, source: PlanSource, planned: PlannedFile) -> bool:
    """Whether a file beside these settings is the planned job, and another program takes it."""
    said = source.premises
    launch = said.launch if one.text.takes_launch else None
    premises = Premises(headroom=said.headroom, launch=launch, trace=said.trace)
    try:
        project = project_for(str(file), SettingsNamed(given=[str(settings)]))
        job, _said = job_of(str(file), one.text.words, with_project_settings(premises, project))
    except TunerError:
        return False
    refused = any(finding.refuses and not finding.set_aside for finding in job.reading.findings)
    return job.reading.workload == planned.setting.workload and not (refused and planned.needs is not None)


def _premises(planned: PlannedFile, answer: PlanAnswer, source: PlanSource) -> dict[str, Any]:
    """What is said of a file beside it, by the names of a settings file."""
    job, cluster = answer.job, planned.setting.workload.cluster
    said = {name: getattr(answer.premises, name) for name in OPTIONS if name not in _OF_CLUSTERS}
    said["verl_version"] = job.release.unbundled or job.release.version
    for name in _PATHS:
        if said[name] is not None and is_there(said[name]):
            said[name] = os.path.abspath(said[name])  # noqa: PTH100 - links stay as they are
    said["gpu"] = _card_names(source).get(cluster.gpu.name, cluster.gpu.name)
    if job.configuration.processes_per_node is not None:  # no key of the file says it
        said |= {"gpus_per_node": cluster.gpus_per_node, "nodes": cluster.nodes}
    by_option = {OPTIONS[name].removeprefix("--"): value for name, value in said.items() if value is not None}
    known = {name.replace("_", "-") for name in PREMISES}
    return {name: value for name, value in by_option.items() if name in known}


def _card_names(source: PlanSource) -> dict[str, str]:
    """What the user calls each card: its name, or the file of its profile."""
    cards = (counted(card)[1] for card in source.cards if card is not None)
    return {
        find_gpu(card).name: os.path.abspath(card) if is_there(card) else card  # noqa: PTH100
        for card in cards
    }


def _expect_free(files: Sequence[Path], settings: Path, source: PlanSource, *, force: bool) -> None:
    """Refuse what would overwrite something: always the user's own, else unless it is asked for.

    Raises:
        InputError: that is so.
    """
    own = Path(source.config)
    for file in files:
        if is_there(file) and is_there(own) and file.samefile(own):
            raise InputError(
                _("the plan was made of this file"),
                location=Location(source=str(file)),
                hint=_("give another folder"),
            )
    if is_there(settings) and not read_bytes(settings, most=MAX_BYTES).startswith(_HEAD.encode()):
        raise InputError(
            _("the folder has settings of its own"),
            location=Location(source=str(settings)),
            hint=_("give another folder"),
        )
    there = [file for file in (*files, settings) if is_there(file)]
    if there and not force:
        raise InputError(
            _("the file is there already"),
            location=Location(source=str(there[0])),
            hint=_("give another folder, or --force to write over it"),
        )


def _put(file: Path, data: bytes, *, force: bool) -> None:
    if force and is_there(file):
        write_over(file, before=read_bytes(file, most=MAX_BYTES), after=data)
    else:
        write_new(file, data)


def _settings_text(files: Sequence[_Proved], folder: Path, source: PlanSource) -> str:
    """The settings file: what holds for files that share all of it, in one part for each."""
    return "\n".join([_HEAD, *_above(folder, source), "", *_parts(files)])


def _above(folder: Path, source: PlanSource) -> Iterator[str]:
    """The settings of the project that the job and the folder both lie in, which still hold."""
    if source.named.given or source.named.isolated or not is_there(source.config):
        return
    theirs = nearest(Path(os.path.abspath(source.config)).parent)  # noqa: PTH100
    ours = nearest(Path(os.path.abspath(folder)).parent)  # noqa: PTH100
    if ours is not None and ours == theirs:
        yield f"extend = {json.dumps(os.path.relpath(ours, folder))}"


def _parts(files: Iterable[_Proved]) -> Iterator[str]:
    def shared(one: _Proved) -> str:
        return "\n".join(f"{name} = {json.dumps(value)}" for name, value in sorted(one.premises.items()))

    for settings, members in groupby(sorted(files, key=shared), key=shared):
        names = [member.name for member in members]
        yield f"[[per-file]]\nfiles = {json.dumps(names)}\n{settings}\n"


def _tell(folder: Path, proved: Sequence[_Proved], source: PlanSource) -> None:
    """What was written, how to read it, and what is not as the user's own file has it."""
    names = [plain(str(folder / one.name)) for one in proved]
    sentence = ngettext("{count} plan is written: {names}", "{count} plans are written: {names}", len(names))
    write(sys.stderr, sentence.format(count=len(names), names=" ".join(names)))
    for words in {one.text.words for one in proved if one.text.words}:
        text = _("give them the words that the script takes: {words}")
        write(sys.stderr, text.format(words=plain(" ".join(words))))
    if source.premises.launch is not None and any(one.text.takes_launch for one in proved):
        text = _("give them the launch that is meant: {option} {number}")
        write(sys.stderr, text.format(option=OPTIONS["launch"], number=source.premises.launch))
    for reason in dict.fromkeys(one.text.settings_alone for one in proved if one.text.settings_alone):
        text = _("YAML with all settings, since the file itself cannot take them: {reason}")
        write(sys.stderr, text.format(reason=plain(reason)))
    for reason in dict.fromkeys(one.text.command_alone for one in proved if one.text.command_alone):
        text = _("a script with the command alone, since the script itself cannot take the program: {reason}")
        write(sys.stderr, text.format(reason=plain(reason)))
    for secrets in dict.fromkeys(one.text.secrets for one in proved if one.text.secrets):
        write(sys.stderr, plain(secrets))
