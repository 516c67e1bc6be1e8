"""All numbers that the model gives for a job, as lines of text that can be compared."""

from collections.abc import Iterator

from tests.tables import HEADROOM
from tuner import rules
from tuner.advise.differences import changes
from tuner.memory import PhaseEstimate, Term
from tuner.rules.case import Case
from tuner.timing.estimate import StepTime
from tuner.timing.uncertainty import phase_interval, step_interval
from tuner.workload import Workload


def listing(workload: Workload) -> Iterator[str]:
    """Bytes of every moment and term, seconds of every part, and what the rules propose."""
    case = Case.of(workload, headroom=HEADROOM)
    for phase in case.phases:
        yield from _phase(phase)
    yield from (f"host {_term(term)}" for term in case.estimate.host_terms)
    yield from (f"problem {problem}" for problem in case.estimate.problems)
    yield from (f"doubt {doubt}" for doubt in case.estimate.doubts)
    if workload.rollout is not None:
        engine = case.rollout
        yield "engine " + " ".join(f"{name}={getattr(engine, name)}" for name in engine.__struct_fields__)
    yield from _seconds(case.time, workload)
    for finding in rules.run(case):
        proposal = changes(workload, finding.proposal) if finding.proposal is not None else {}
        proposed = " ".join(f"{'.'.join(path)}={_short(value)}" for path, value in proposal.items())
        yield f"{finding.rule.code} {finding.severity.value}: {finding.message} -> {proposed}"


def _phase(phase: PhaseEstimate) -> Iterator[str]:
    low, high = phase.interval
    yield f"{phase.phase.value} {phase.peak_bytes} ({low} {high})"
    before: dict[str, str] = {}
    for moment in (phase.resident, *phase.own):
        terms = dict(_named(moment.terms))
        yield f"  {moment.name} {moment.bytes}: {_difference(before, terms)}"
        before = {} if moment is phase.resident else terms


def _named(terms: tuple[Term, ...]) -> Iterator[tuple[str, str]]:
    """Terms by their names, of which a few stand twice in a moment."""
    for number, term in enumerate(terms):
        known = any(other.name == term.name for other in terms[:number])
        yield f"{term.name}#{number}" if known else term.name, _term(term)


def _difference(before: dict[str, str], after: dict[str, str]) -> str:
    """What a moment has that the one before had not, and what has gone."""
    gone = [f"-{name}" for name in before if name not in after]
    return " ".join([*gone, *(text for name, text in after.items() if before.get(name) != text)])


def _term(term: Term) -> str:
    ends = "" if term.low == term.bytes == term.high else f"({term.low},{term.high})"
    return f"{term.name}={term.bytes}{ends}"


def _seconds(time: StepTime, workload: Workload) -> Iterator[str]:
    whole = step_interval(time, workload.cluster)
    yield f"step {whole.seconds:.6g} s ({whole.low_s:.6g} {whole.high_s:.6g})"
    for phase in time.phases:
        within = phase_interval(phase, workload.cluster)
        parts = " ".join(f"{name}={seconds:.6g}" for name, seconds in phase.parts)
        yield f"  {phase.phase.value} {phase.seconds:.6g} ({within.low_s:.6g} {within.high_s:.6g}): {parts}"


def _short(value: object) -> str:
    """A field, or the fields of it that are not what they are by default."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
