"""A rollout engine of which nothing names the version: what is said holds with all that it may be.

A check speaks of an engine by its version. So only a finding that names the one which is taken is looked for
with older ones as well; the others are the trainer's, whatever generates.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tuner.advise.refusals import only_in
from tuner.findings import Finding, Severity
from tuner.language import _
from tuner.trainers.protocol import RolloutEngineChoice


def with_open_engine(
    findings: Sequence[Finding],
    engine: RolloutEngineChoice,
    read: Callable[[RolloutEngineChoice], Sequence[Finding] | None],
) -> Sequence[Finding]:
    """The findings; what does not hold with every version of the engine is milder, and says with which.

    Args:
        findings: with the version that is taken.
        engine: this version, and the others that it may be.
        read: what checks say with another one; None where it cannot be read.
    """
    elsewhere = {version: read(replace(engine, version=version)) for version in engine.others}
    known = {version: theirs for version, theirs in elsewhere.items() if theirs is not None}

    def conditional(finding: Finding) -> Finding:
        holding = [version for version, theirs in known.items() if _holds(finding, theirs)]
        if finding.only_in or not names_engine(finding, engine) or len(holding) == len(known):
            return finding
        milder = only_in(finding, _words(engine, holding, list(known)))
        return replace(milder, overrides=(), set_aside=False)

    return tuple(conditional(finding) for finding in findings)


def names_engine(finding: Finding, engine: RolloutEngineChoice) -> bool:
    """Whether a finding speaks of an engine by its version."""
    return f"{engine.name} {engine.version}" in finding.message


def _words(engine: RolloutEngineChoice, holding: Sequence[str], known: Sequence[str]) -> str:
    """The versions with which it holds: ``vLLM 0.8.5 or newer``."""
    versions = [version for version in (*known, engine.version) if version in (*holding, engine.version)]
    words = ", ".join(versions)
    if len(versions) > 1 and [*known, engine.version][-len(versions) :] == versions:
        words = _("{release} or newer").format(release=versions[0])
    return f"{engine.name} {words}"


def _holds(finding: Finding, theirs: Sequence[Finding]) -> bool:
    """Whether there is a finding of the same rule and keys, and no milder one."""
    order = list(Severity).index
    return any(
        (other.rule, other.keys) == (finding.rule, finding.keys)
        and order(other.severity) <= order(finding.severity)
        for other in theirs
    )
