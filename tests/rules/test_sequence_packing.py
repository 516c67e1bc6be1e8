"""What packing is advised with, and where it is not."""

from tests.workloads import grpo_7b
from tuner.findings import Finding
from tuner.rules.case import Case
from tuner.rules.sequence import sequence_packing


def advised(**engine: object) -> Finding | None:
    return sequence_packing.check(Case.of(grpo_7b().with_actor_engine(packed=False, **engine), headroom=0.1))


def test_a_family_that_nobody_tested_is_named() -> None:
    tested, untested = advised(), advised(packing_tested=False)
    assert tested is not None
    assert untested is not None
    assert [note for note in untested.notes if note not in tested.notes] == [sequence_packing._UNTESTED]


def test_what_needs_padding_is_left_alone() -> None:
    finding = advised(packable=False)
    assert finding is None or finding.proposal is None or not finding.proposal.actor.engine.packed
