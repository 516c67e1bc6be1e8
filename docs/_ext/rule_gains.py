"""What a rule brings on its own example: the job before and after, computed while the site is built."""

import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile

from msgspec import Struct

from kept_answers import cached_answer
from tests.tables import Base, Table, given, table
from tuner import language
from tuner.advise import Recommendation, Verdict, judgement
from tuner.advise.differences import with_conflicts
from tuner.advise.pricing import rank
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises
from tuner.consultation.result import Consultation
from tuner.memory import mean_tokens_that_fit
from tuner.render.document.parts import AnswerDocument
from tuner.render.document.terminal import terminal_text
from tuner.render.recommendations import recommendation
from tuner.render.terminal import Terminal
from tuner.render.words import pasteable
from tuner.rules.case import Case
from tuner.workload import Phase, Workload

WIDTH = 84
BUILT = Path(__file__).resolve().parents[1] / "_build"
_REFUSED = Verdict.WILL_NOT_START


class Job(Struct, frozen=True, kw_only=True):
    """What the model says of a job, as far as a rule's page shows it."""

    verdict: Verdict
    worst_phase: str = ""  # empty where the job does not start
    worst_bytes: int = 0
    phase_bytes: int = 0  # peak of the phase that the rule is about
    seconds: float | None = None  # of a step; None where the job does not run


class Gain(Struct, frozen=True, kw_only=True):
    """The example of a rule, and what the program answers to it."""

    premise: str
    settings: tuple[str, ...]
    fix: tuple[str, ...]  # empty where no override helps
    pasted: bool  # the program proposes the fix; else it is the one that the table of examples names
    phase: str  # that the rule is about; empty where it is about none
    before: Job
    after: Job | None  # None where nothing helps
    evidence: str


def ask(base: Base, overrides: Sequence[str]) -> Consultation:
    """The program's answer to a base with overrides: over an empty file, or in a script of its trainer.

    Nothing is to be pasted of it as a whole, which takes as long to choose as everything else.
    Where the base lies in this repository, so does the file, where no build looks for its sources.
    """
    premises = Premises(gpu=base.gpu, verl_version=base.version, engine_version=base.engine_version)
    keys = given(base, overrides)
    BUILT.mkdir(exist_ok=True)
    suffix, place = ".sh" if base.program else ".yaml", BUILT if base.folder else None
    with NamedTemporaryFile("w", suffix=suffix, dir=place) as file:
        if base.program:
            file.write(shlex.join(["python3", "-m", base.program, *keys]))
            file.flush()
            keys = []
        ratio = base.zero_advantage_ratio
        return consult(file.name, keys, premises, zero_advantage_ratio=ratio, block=False)


def entry(answer: Consultation, name: str) -> Recommendation | None:
    """What the answer says by this rule, and the rules that it stands against, as advice names them."""
    advice = answer.advice
    case = Case.of(advice.workload, headroom=advice.headroom)
    stopping = [item for item in advice.recommendations if item.finding.refuses]
    others = [item for item in advice.recommendations if not item.finding.refuses]
    others.sort(key=lambda item: rank(case, item.finding, item.workload))
    told = (*stopping, *with_conflicts(advice.workload, others))
    return next((item for item in told if item.finding.rule.name == name), None)


@cached_answer(words=False)
def gain(name: str) -> Gain:
    """What a rule says of the bad example of its table, and what following it changes.

    Raises:
        ValueError: the example does not trigger the rule.
    """
    example = table(name)
    answer, item = _example_answer(name, language.chosen())
    fix = item.overrides or example.remedy
    phase = item.price.phase if item.price is not None else item.finding.phase
    return Gain(
        premise=_premise(example.bad_base),
        settings=example.bad,
        fix=tuple(pasteable(override) for override in fix),
        pasted=bool(item.overrides),
        phase="" if phase is None else phase.value,
        before=_before(answer, phase),
        after=_after(answer, item, example, phase) if fix else None,
        evidence=item.finding.evidence.value,
    )


@cached_answer(words=True)
def advice_entry(name: str) -> str:
    """The entry that the example of a rule has in the advice, in the reader's language."""
    answer, item = _example_answer(name, language.chosen())
    parts = tuple(recommendation(item, 1, answer.advice))
    return terminal_text(AnswerDocument(sections=(parts,)), Terminal(width=WIDTH)).rstrip("\n")


@cache
def _example_answer(name: str, language_chosen: str) -> tuple[Consultation, Recommendation]:
    example = table(name)
    answer = ask(example.bad_base, example.bad)
    item = entry(answer, name)
    if item is None:
        raise ValueError(f"the bad example of {name} does not trigger it")
    return answer, item


def _premise(base: Base) -> str:
    premise = f"# {base.model}, {base.nodes} x {base.gpus_per_node} {base.gpu}, verl {base.version}"
    premise += f", --engine-version {base.engine_version}" if base.engine_version else ""
    ratio = base.zero_advantage_ratio
    return premise + (f", --zero-advantage-ratio {ratio:g}" if ratio else "")


def _before(answer: Consultation, phase: Phase | None) -> Job:
    if answer.advice.verdict is _REFUSED:
        return Job(verdict=_REFUSED)
    return _answered(answer, phase)


def _after(answer: Consultation, item: Recommendation, example: Table, phase: Phase | None) -> Job:
    """The job with the fix, read back as the advice reads it."""
    if not item.overrides:
        return _answered(ask(example.bad_base, (*example.bad, *example.remedy)), phase)
    if item.workload is not None:
        return _modelled(item.workload, phase, headroom=answer.advice.headroom)
    return _answered(answer, phase)  # of a job that is refused these are the figures once it starts


def _answered(answer: Consultation, phase: Phase | None) -> Job:
    advice = answer.advice
    return _modelled(advice.workload, phase, headroom=advice.headroom)


def _modelled(workload: Workload, phase: Phase | None, *, headroom: float) -> Job:
    case = Case.of(workload, headroom=headroom)
    said = judgement(case, mean_tokens_that_fit([workload]))
    worst = case.estimate.worst
    return Job(
        verdict=said.verdict,
        worst_phase=worst.phase.value,
        worst_bytes=worst.peak_bytes,
        phase_bytes=worst.peak_bytes if phase is None else case.peak_bytes(phase),
        seconds=case.time.seconds if said.is_expected_to_fit else None,
    )
