import re
import shlex

import pytest
from msgspec.structs import replace

from tests.cli import answers
from tests.cli.golden import expect
from tuner.advise import Advice, Condition, Verdict
from tuner.consultation.result import Consultation
from tuner.memory import Item, Moment, PhaseEstimate, Term
from tuner.render.advice import advice_document
from tuner.render.bars import PARTS, chart
from tuner.render.document.parts import AnswerDocument
from tuner.render.document.terminal import terminal_text
from tuner.render.recommendations import price
from tuner.render.terminal import Terminal, plain
from tuner.render.verdict import verdict as verdict_parts
from tuner.render.words import pasteable
from tuner.trainers.key_facts import Affects
from tuner.trainers.protocol import LeftOut, RolloutEngineChoice
from tuner.units import GIB
from tuner.workload import FractionOf, Phase, RolloutEngine

PAPER = Terminal(width=80)
PROBLEM = "the rollout engine has no room for a KV cache"


def bars(text: str) -> dict[str, str]:
    """Phase and bar of each line of a chart, without the sizes beside it."""
    names = "|".join(phase.value for phase in Phase)
    line = re.compile(rf"  ({names}) +[\d.]+ GiB(?: +\d+%)? (.*?)((?: +[A-Z] [\d.]+)*)$")
    matches = map(line.match, text.splitlines())
    return {match[1]: match[2].rstrip() for match in matches if match}


def advice_text(
    answer: Consultation, terminal: Terminal, *, full: bool = False, explain: bool = False
) -> str:
    return terminal_text(advice_document(answer, full=full, explain=explain), terminal)


def verdict(advice: Advice, terminal: Terminal) -> str:
    return terminal_text(AnswerDocument(sections=(tuple(verdict_parts(advice)),)), terminal).rstrip("\n")


def full_text(answer: Consultation, terminal: Terminal = PAPER) -> str:
    return advice_text(answer, terminal, full=True)


def test_whole_text_at_80_columns() -> None:
    expect("advice-80.txt", advice_text(answers.answer(), PAPER))
    expect("advice-full-80.txt", full_text(answers.answer()))


def test_a_refused_launch_at_80_columns() -> None:
    text = advice_text(answers.answer(answers.advice(Verdict.WILL_NOT_START, logits=30.0)), PAPER)
    assert text.startswith("WILL NOT START  refused by CFG902\n")
    assert "\n  With that lifted: FITS, 56.9 GiB of 79.6 at the peak (update_actor).\n" in text
    pasted = " ".join(text.split()).partition("Paste this: ")[2]
    assert pasted.startswith("WILL NOT START before CFG902 is lifted, then FITS with 26.0 GiB to spare")
    expect("advice-refused-80.txt", text)


def test_running_sequences_that_the_cache_does_not_hold_are_said_to_be_preempted() -> None:
    def text(running: int) -> str:
        given = replace(answers.advice(), rollout=replace(answers.ROLLOUT, running_sequences=running))
        return " ".join(full_text(answers.answer(given)).split())

    assert "When all 512 that run grow to full length, 231 are preempted" in text(512)
    assert "preempted" not in text(281)


def test_the_meaning_of_the_fraction_is_told_for_every_engine() -> None:
    def text(**changes: object) -> str:
        given = answers.advice()
        given = replace(given, workload=given.workload.with_rollout(**changes))
        return " ".join(full_text(answers.answer(given)).split())

    told = {kind: text(fraction_of=kind).partition("memory fraction of 0.50 is ")[2] for kind in FractionOf}
    assert all(told.values())
    assert len({meaning.partition(".")[0] for meaning in told.values()}) == len(FractionOf)
    assert "memory fraction of" not in text(engine=RolloutEngine.TRANSFORMERS)


def test_whole_text_in_ascii_at_40_columns() -> None:
    text = advice_text(answers.answer(assumed=True), Terminal(width=40, unicode=False), explain=True)
    assert text.isascii()
    expect("advice-40-ascii.txt", text)


def test_whole_text_in_colour() -> None:
    coloured = advice_text(answers.answer(), Terminal(width=80, colour=True))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == advice_text(answers.answer(), PAPER)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_only_lines_to_paste_or_find_are_longer_than_the_screen(width: int) -> None:
    text = advice_text(answers.answer(assumed=True), Terminal(width=width))
    long = [line for line in text.splitlines() if len(line) > width]
    keys = ("actor_rollout_ref.", "a_very_long_key_that_would_wrap")
    assert all(any(key in line for key in keys) for line in long)
    assert all(len(line) <= width for line in chart(answers.estimate(), Terminal(width=width)).splitlines())


def test_every_item_has_a_letter_and_a_colour_of_its_own() -> None:
    assert {part.item for part in PARTS} == set(Item)
    assert len({part.letter for part in PARTS}) == len({part.colour for part in PARTS}) == len(PARTS)


def test_a_bar_is_in_proportion_and_marks_the_capacity() -> None:
    drawn = bars(chart(answers.estimate(logits=60.0), Terminal(width=80, unicode=False)))
    fitting, over = drawn["rollout"], drawn["update_actor"]
    assert fitting.index("|") == over.index("|")
    cells = len(over) - 1
    assert over.count("L") == pytest.approx(cells * 60.0 / 86.9, abs=1)
    assert fitting.count("K") == pytest.approx(cells * 30.8 / 86.9, abs=1)
    assert over.index("|") == pytest.approx(cells * 79.6 / 86.9, abs=1)
    assert fitting.endswith("|")
    assert not over.endswith("|")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_two_largest_parts_stand_beside_a_bar_where_there_is_room(width: int) -> None:
    estimate = answers.estimate(logits=60.0)
    text = chart(estimate, Terminal(width=width))
    for phase in estimate.telling_phases:
        sizes = sorted(((phase.bytes_of(part.item), part.letter) for part in PARTS), reverse=True)[:2]
        beside = " ".join(f"{letter} {size / 2**30:.1f}" for size, letter in sizes if size)
        line = next(line for line in text.splitlines() if phase.phase.value in line)
        assert line.endswith(f"  {beside}") is (width > 60)


def test_parts_can_be_told_apart_without_colour() -> None:
    wide = Terminal(width=100)
    assert bars(chart(answers.estimate(), wide))["rollout"].replace("█", "").split() == ["POEKC", "│"]


@pytest.mark.parametrize(
    ("kind", "condition", "logits", "expected"),
    [
        (
            Verdict.FITS,
            None,
            30.0,
            "FITS  56.9 GiB of 79.6 at the peak (update_actor)\n"
            "  update_actor is expected at 56.9 GiB (56.5 to 58.9); 22.7 GiB (29%) stay free, 20.7 GiB at "
            "least.",
        ),
        (
            Verdict.MAY_NOT_FIT,
            Condition.NOTHING_ELSE,
            51.0,
            "MAY NOT FIT  77.5 to 79.9 of 79.6 GiB in update_actor: fits if nothing else is on the card\n"
            "  update_actor is expected at 77.9 GiB (77.5 to 79.9); 1.7 GiB (2%) stay free, less than the "
            "headroom of 10%.",
        ),
        (
            Verdict.MAY_NOT_FIT,
            Condition.RELEASE,
            30.0,
            "MAY NOT FIT  56.9 to 86.9 of 79.6 GiB in update_actor: what verl 0.2.0 does is not known\n"
            "  update_actor peaks at 56.9 GiB (56.5 to 58.9) of 79.6 GiB as verl 0.4.1, but at "
            "86.9 GiB as releases before 0.4.",
        ),
        (
            Verdict.MAY_NOT_FIT,
            Condition.MEAN_LENGTH,
            60.0,
            "MAY NOT FIT  86.5 to 88.9 of 79.6 GiB in update_actor: fits while sequences stay under 1,024 "
            "tokens in the mean\n"
            "  update_actor is expected at 86.9 GiB (86.5 to 88.9), 7.3 GiB too much; sequences may average "
            "1,024 of at most 4,096 tokens.",
        ),
        (
            Verdict.MAY_NOT_FIT,
            Condition.LOW_END,
            53.0,
            "MAY NOT FIT  79.5 to 81.9 of 79.6 GiB in update_actor: fits at the low end alone\n"
            "  update_actor is expected at 79.9 GiB (79.5 to 81.9), 0.3 GiB too much",
        ),
        (
            Verdict.CANNOT_SAY,
            Condition.OWN_PLAN,
            60.0,
            "CANNOT SAY  86.9 GiB of 79.6 at the peak (update_actor) with FSDP2's own units: a plan of the "
            "user's may take less\n",
        ),
        (
            Verdict.DOES_NOT_FIT,
            None,
            60.0,
            "DOES NOT FIT  86.9 GiB of 79.6 at the peak (update_actor)\n"
            "  update_actor is expected at 86.9 GiB (86.5 to 88.9), 7.3 GiB too much.",
        ),
    ],
)
def test_the_verdict_says_where_and_by_how_much(
    kind: Verdict, condition: Condition | None, logits: float, expected: str
) -> None:
    said = verdict(answers.advice(kind, condition, logits=logits), Terminal(width=200))
    assert said.startswith(expected)
    assert ("Largest parts: logits 60.0 GiB" in said) == (logits == 60.0)


@pytest.mark.parametrize("kind", Verdict)
def test_the_words_of_the_verdict_are_one_piece_and_one_colour(kind: Verdict) -> None:
    advice = answers.advice(kind, logits=60.0 if kind is Verdict.DOES_NOT_FIT else 30.0)
    if kind is Verdict.WILL_NOT_START:
        advice = replace(advice, memory_verdict=Verdict.FITS)
    plainly = verdict(advice, Terminal(width=40))
    word = plainly.partition("  ")[0]
    assert word == kind.value.upper().replace("_", " ")
    assert "\u2060" not in plainly
    assert re.match(rf"\x1b\[1;3\dm{word}\x1b\[0m  \S", verdict(advice, Terminal(width=40, colour=True)))


def test_too_little_host_memory_is_said_in_the_verdict() -> None:
    advice = answers.advice(logits=30.0)
    short = replace(advice.estimate, host_capacity_bytes=64 * GIB, problems=("host memory is short",))
    said = verdict(replace(advice, estimate=short), Terminal(width=200))
    assert said.startswith("DOES NOT FIT  120.0 GiB of 64.0 host memory per node\n")
    assert "host memory is short" in said


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (None, "120.0 GiB for offloaded states and copies, up to 240.0 GiB where pinned memory"),
        (256, "120.0 GiB of 256.0 GiB for offloaded states and copies, up to 240.0 GiB"),
        (200, "to powers of two, which is more than a node has."),
        (64, "120.0 GiB of 64.0 GiB for offloaded states and copies, up to 240.0 GiB"),
    ],
)
def test_how_much_host_memory_there_may_be_is_said(limit: int | None, said: str) -> None:
    pinned = Term(item=Item.OPTIMIZER, name="pinned", bytes=120 * GIB, high_bytes=240 * GIB)
    answer = answers.answer()
    estimate = replace(
        answer.advice.estimate,
        host_terms=(pinned,),
        host_capacity_bytes=None if limit is None else limit * GIB,
    )
    text = full_text(replace(answer, advice=replace(answer.advice, estimate=estimate)), Terminal(width=300))
    assert said in text
    assert ("which is more than a node has" in text) is (limit == 200)


def test_the_engine_and_why_it_was_taken_are_said() -> None:
    answer = replace(
        answers.answer(),
        rollout_engine=RolloutEngineChoice(name="vLLM", version="0.8.5", reason="the newest"),
    )
    assert "\n  engine    vLLM 0.8.5 (the newest)\n" in full_text(answer, Terminal(width=120))
    assert "\n  engine  " not in full_text(answers.answer(), Terminal(width=120))


def test_a_doubt_is_the_condition_of_the_verdict() -> None:
    advice = answers.advice(Verdict.MAY_NOT_FIT, Condition.DOUBT, logits=30.0)
    doubted = replace(advice.estimate, doubts=("the rollout engine may not start", "a disk may be full"))
    said = verdict(replace(advice, estimate=doubted), Terminal(width=200))
    assert said.startswith(
        "MAY NOT FIT  as counted it does, with 58.9 of 79.6 GiB at most in update_actor; but the rollout "
        "engine may not start\n"
    )
    assert said.endswith("\n  a disk may be full")


def test_what_pytorch_may_keep_is_said() -> None:
    advice = answers.advice(Verdict.FITS, logits=30.0)
    quiet = Term(item=Item.ACTIVATIONS, name="earlier", bytes=5 * GIB)
    update = advice.estimate.worst
    longer = PhaseEstimate(phase=update.phase, own=(*update.moments, Moment(name="before", terms=(quiet,))))
    phases = tuple(longer if phase is update else phase for phase in advice.estimate.phases)
    told = full_text(
        answers.answer(replace(advice, estimate=replace(advice.estimate, phases=phases))), Terminal(width=100)
    )
    shown = "nvidia-smi may show up to 63.9 GiB in update_actor, 56.9 GiB (up to 58.9 GiB) of it in use"
    assert shown in " ".join(told.split())
    assert "freed blocks" not in full_text(answers.answer(advice))


def test_a_job_that_does_not_start_says_why() -> None:
    advice = answers.advice(Verdict.WILL_NOT_START, logits=30.0)
    advice = replace(
        advice,
        memory_verdict=Verdict.WILL_NOT_START,
        refusals=(),
        estimate=replace(advice.estimate, problems=(PROBLEM,)),
    )
    said = verdict(advice, Terminal(width=200))
    assert said.startswith(f"WILL NOT START  {PROBLEM}\n")
    assert said.count(PROBLEM) == 1


def test_other_phases_that_do_not_fit_are_named() -> None:
    advice = replace(answers.advice(), estimate=answers.estimate(logits=60.0, capacity=50.0))
    assert "Too large as well: rollout 51.6 GiB." in verdict(advice, Terminal(width=200))


def test_an_assumed_gpu_is_said_loudly() -> None:
    text = advice_text(answers.answer(assumed=True), PAPER)
    assert "ASSUMED: no GPU was named" in text
    assert "ASSUMED" not in advice_text(answers.answer(), PAPER)


def test_no_advice_is_said_too() -> None:
    advice = replace(answers.advice(Verdict.FITS, logits=10.0), recommendations=(), combination=None)
    text = advice_text(answers.answer(advice), PAPER)
    assert "Nothing to paste: no line would bring 3% of the step." in text
    assert "Paste this" not in text


def test_a_price_counts_both_phases_and_time() -> None:
    cost = answers.recommendations()[1].price
    assert cost is not None
    said = price(cost, capacity_bytes=round(79.6 * GIB))
    assert (
        said
        == "update_actor 86.9 → 61.2 GiB; then the expected peak fits; step 4% longer (3% to 6%, modelled)"
    )
    unchanged = replace(cost, phase=Phase.ROLLOUT, before_bytes=GIB, after_bytes=GIB, seconds_after=100.1)
    said = price(unchanged, capacity_bytes=100 * GIB)
    assert said == "worst phase 86.9 → 61.2 GiB; same step time (modelled)"


def test_what_each_part_of_the_block_brings_is_said() -> None:
    text = full_text(answers.answer(), Terminal(width=200))
    assert (
        "MEM901 offload-something: without it the job does not fit; without it the step is 6% longer" in text
    )
    assert "KRN901 fused-something: without it the step is 12% longer" in text


def test_what_the_job_needs_to_fit_at_the_high_end_is_said() -> None:
    assert answers.LATE.without is not None
    part = replace(answers.LATE, without=replace(answers.LATE.without, certain=False))
    advice = answers.advice()
    assert advice.combination is not None
    advice = replace(advice, combination=replace(advice.combination, contributions=(part,)))
    assert "without it the job may not fit" in full_text(answers.answer(advice))


def test_a_phase_that_may_exceed_the_card_is_named_beside_the_worst() -> None:
    estimate = answers.estimate(logits=10.0)
    other = next(phase for phase in estimate.phases if phase is not estimate.worst)
    wide = Term(item=Item.ACTIVATIONS, name="wide", bytes=0, high_bytes=80 * GIB)
    wider = replace(other, own=(*other.own, Moment(name="wide", terms=(wide,))))
    doubtful = replace(
        estimate, phases=tuple(wider if phase is other else phase for phase in estimate.phases)
    )
    text = " ".join(
        advice_text(
            answers.answer(
                replace(answers.advice(Verdict.MAY_NOT_FIT, Condition.NOTHING_ELSE), estimate=doubtful)
            ),
            PAPER,
        ).split()
    )
    assert f"{other.phase.value} may take up to" in text


def test_a_block_says_what_of_the_memory_it_does_not_count() -> None:
    left = LeftOut(
        name="the images", key="data.image_key", value="images", origin=None, reason="", affects=Affects.GPU
    )
    answer = answers.answer()
    assert "Paste this: FITS with 26.0 GiB to spare at least;" in advice_text(answer, PAPER)
    said = " ".join(advice_text(replace(answer, left_out=(left,)), PAPER).split())
    assert "Paste this: FITS with 26.0 GiB to spare at least, without the images;" in said


def test_seconds_are_compared_with_what_runs() -> None:
    text = " ".join(advice_text(answers.answer(), PAPER).split())
    assert "step 100 → 90 s (75 to 115, modelled), 10% (9% to 11%) shorter than the cheapest" in text
    fits = " ".join(advice_text(answers.answer(answers.advice(Verdict.FITS, logits=30.0)), PAPER).split())
    assert "10% (9% to 11%) shorter" in fits
    assert "cheapest form" not in fits


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "Nothing to paste: no line would bring 3% of the step."),
        ({"estimate": answers.estimate(logits=60.0)}, "nothing that leaves the training as it is makes"),
        (
            {"if_reweighted": answers.advice().combination},
            "With --allow reweighted a block makes",
        ),
        ({"refusals": (replace(answers.REFUSALS[0], overrides=()),)}, "has to be fixed by hand"),
    ],
)
def test_where_there_is_nothing_to_paste_it_says_why(changes: dict[str, object], why: str) -> None:
    advice = replace(answers.advice(Verdict.FITS, logits=10.0), combination=None, **changes)
    assert why in " ".join(advice_text(answers.answer(advice), PAPER).split())


def test_at_most_three_findings_are_told_and_the_others_named() -> None:
    text = advice_text(answers.answer(), PAPER)
    matters = text.partition("What matters most")[2]
    assert matters.count("\n    ") >= 3
    assert "numerics: weights tokens differently" not in text
    assert "numerics: weights tokens differently" in full_text(answers.answer())


def test_overrides_are_pasteable() -> None:
    assert pasteable("a.b=1e-6") == "a.b=1e-6"
    assert pasteable("a.b=[x,y]") == "'a.b=[x,y]'"
    assert pasteable("~a.b") == "'~a.b'"
    assert pasteable("a.b='~/c d'") == "\"a.b='~/c d'\""
    assert shlex.split(pasteable("a.b='$HOME'")) == ["a.b='$HOME'"]


def test_text_of_the_user_is_shown_as_it_is_written() -> None:
    assert plain("trainer.logger=[console] :warning: 显存") == "trainer.logger=[console] :warning: 显存"
    assert plain("a\x1b[31mb\nc\u202ed\x07") == "a\\x1b[31mb\\nc\\u202ed\\x07"
    hostile = answers.recommendations()[0]
    hostile = replace(
        hostile, finding=replace(hostile.finding, message="[bold]\x1b[2J"), overrides=("a=\x1b[0m",)
    )
    advice = replace(answers.advice(), recommendations=(hostile,))
    text = advice_text(answers.answer(advice), PAPER)
    assert "\x1b" not in text
    assert "[bold]\\x1b[2J" in text
