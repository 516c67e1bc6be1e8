"""A job planned under several strategies of its trainer's engine, each with the configuration it rests on.

A strategy may need another configuration and packages that are not there, and each takes a search of its
own. So none but the job's own is planned unless somebody names it.
"""

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from tuner.advise.combine import one_per_key
from tuner.consultation.consult import job_of
from tuner.consultation.given_words import GivenWords
from tuner.consultation.job import JobReading, read_job
from tuner.consultation.placement import command, own_overrides
from tuner.consultation.premises import Premises
from tuner.errors import InputError, TunerError, UnsupportedError
from tuner.inputs.overrides import CONFIG_OPTIONS, on_command_line
from tuner.inputs.tree import contains, dotted
from tuner.language import _
from tuner.plan.answer import ClusterPlan, LaunchNeeds, PlannedSetting
from tuner.plan.space import same_training

KEY = "strategy"  # of --vary
_OWN_FOLDER = "config"  # of a trainer's program, beside which it stands


def strategies_named(varied: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The strategies among what is varied, and the rest.

    Raises:
        InputError: none is named.
    """
    wanted: list[str] = []
    others: list[str] = []
    for text in varied:
        key, equals, values = text.partition("=")
        if key.strip() != KEY or not equals:
            others.append(text)
            continue
        named = [value.strip() for value in values.split(",")]
        if not all(named):
            raise InputError(_("--vary {text}: expected KEY=VALUE,VALUE,...").format(text=text))
        wanted += named
    return tuple(dict.fromkeys(wanted)), tuple(others)


def job_under(
    name: str, job: JobReading, given: GivenWords, premises: Premises, before: Sequence[str]
) -> tuple[JobReading, tuple[str, ...]]:
    """A job under a strategy, with the overrides that bring it about; the job itself where it has it already.

    Raises:
        TunerError: the release has no such strategy, or none for this job.
    """
    lines = job.loaded.trainer.strategy_lines(job.loaded, job.reading.workload, name)
    if not lines:
        return job, ()
    under, _said = job_of(given.source, (*given.words, *before, *lines), premises)
    own, other = job.reading.workload, under.reading.workload
    if (own.actor.engine.lora is None) != (other.actor.engine.lora is None):
        raise UnsupportedError(
            _("its adapters have other keys there, and without them it is another training")
        )
    if not same_training(own, other):
        raise UnsupportedError(_("the training would be another one"))
    return under, lines


def as_started(plan: ClusterPlan, job: JobReading, under: JobReading, premises: Premises) -> ClusterPlan:
    """A plan with what its settings need to be started; those alone that read back as what was planned.

    Args:
        plan: of the job under a strategy.
        job: as the user has it.
        under: as it was planned.
        premises: with which both were read.

    Raises:
        UnsupportedError: the launch cannot rest on another configuration.
    """
    base = job.loaded.trainer.other_base(job.loaded, under.loaded, job.given.program)
    if base is None:
        return plan
    if not all(one in (job.loaded.base.name, _OWN_FOLDER) for one in _named(job)):
        raise UnsupportedError(_("its launch names a configuration of its own"))
    needs = LaunchNeeds(
        program=base.program,
        options=base.options,
        package=base.package,
        packages=base.packages,
        without=tuple(_lacking_keys(job, under)),
    )
    started = (_started(one, job, needs) for one in plan.settings)
    kept = [one for one in started if _reads_back(one, job, premises)]
    if plan.settings and not kept:
        raise UnsupportedError(_("read back, the lines that would be shown make another job"))
    return replace(plan, settings=tuple(kept))


def as_it_is(plan: ClusterPlan) -> ClusterPlan:
    """A plan with the settings alone that rest on the job's own configuration."""
    return replace(plan, settings=tuple(one for one in plan.settings if one.needs is None))


def _named(job: JobReading) -> Iterator[str]:
    """What a launch says of its configuration, by the names of files without their ending."""
    words = [one.text for one in job.given.arguments]
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in CONFIG_OPTIONS:
            named = value if equals else "".join(words[place + 1 : place + 2])
            yield named.strip("'\"").removeprefix("./").removesuffix(".yaml")


def _lacking_keys(job: JobReading, under: JobReading) -> Iterator[str]:
    """What the user sets by keys of the job's own configuration that the other one does not have."""
    before, after = job.loaded.settings, under.loaded.settings
    for path in before.origins:
        known = contains(before.tree, path) and contains(before.defaults, path)
        if known and not contains(after.defaults, path):
            yield dotted(path)


def _started(setting: PlannedSetting, job: JobReading, needs: LaunchNeeds) -> PlannedSetting:
    """A setting with what it needs: the whole command where the job's own launch cannot just be added to."""
    given = job.given
    if given.program and given.document is None and not needs.without and not any(_named(job)):
        return replace(setting, needs=needs)
    overrides = _all_overrides(setting, job, needs.without)
    shown = map(job.loaded.settings.shown_override, overrides)
    return replace(setting, needs=replace(needs, launch=command(needs, shown)))


def _all_overrides(setting: PlannedSetting, job: JobReading, without: Collection[str]) -> tuple[str, ...]:
    return one_per_key((*own_overrides(job, without), *setting.overrides))


def _reads_back(setting: PlannedSetting, job: JobReading, premises: Premises) -> bool:
    """Whether the job with the lines, the options and without the keys is what was planned, and starts."""
    needs, given = setting.needs, job.given
    assert needs is not None  # asked of those alone
    kept, lines = given.arguments, setting.overrides
    if needs.launch:
        kept, lines = (), _all_overrides(setting, job, needs.without)
    arguments = (*kept, *on_command_line((*lines, *needs.options)))
    given = replace(given, document=None, program=needs.program, arguments=arguments)
    try:
        read = read_job(given, premises, card=job.card, release=job.release)
    except (TunerError, ValueError):
        return False
    refused = any(one.refuses and not one.set_aside for one in read.reading.findings)
    return read.reading.workload == setting.workload and not refused
