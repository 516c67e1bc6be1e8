"""What is not proposed since the copy of the trainer that runs does otherwise in what it rests on."""

from collections.abc import Iterable, Iterator

from tuner.advise.answer import Withheld
from tuner.advise.pricing import helps, matters
from tuner.advise.reading import Reading
from tuner.evidence import ChangedCode
from tuner.findings import Finding, NotStanding
from tuner.override_text import override_key
from tuner.rules.case import Case


def withheld(case: Case, findings: Iterable[Finding], reading: Reading) -> tuple[Withheld, ...]:
    """What would be proposed if the copy did as its release, by the place that does not."""
    by_place: dict[ChangedCode, list[str]] = {}
    for finding in findings:
        for grounds, key in _missing(case, finding, reading):
            by_place.setdefault(grounds, []).append(key)
    return tuple(
        Withheld(grounds=grounds, keys=tuple(dict.fromkeys(keys))) for grounds, keys in by_place.items()
    )


def _missing(case: Case, finding: Finding, reading: Reading) -> Iterator[tuple[ChangedCode, str]]:
    if finding.grounds is not None:
        yield from ((finding.grounds, override_key(text)) for text in finding.overrides)
        return
    proposal = finding.proposal
    if proposal is None or not helps(case, finding, proposal) or not matters(case, proposal):
        return
    try:
        reading.write(proposal)
    except NotStanding as error:
        yield error.grounds, error.key
    except ValueError:  # it cannot be written whatever the copy does
        return
