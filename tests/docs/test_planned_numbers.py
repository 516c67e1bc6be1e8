"""What the calculator says of numbers of GPUs is what ``tuner plan`` prints."""

import json
import random
from typing import Any

import pytest
import quickjs

from calculator import form, plan_tab, planned
from calculator.planned import PlannedJob, PlannedNumber
from tests.cli.runner import ROOT, run

JOBS = tuple(planned.jobs())
GPUS = [1, 2, 4, 8, 16, 32, 64]


@pytest.fixture(scope="module")
def engine() -> Any:
    """A JavaScript engine that has the answers, without a page."""
    context = quickjs.Context()
    context.eval((ROOT / "docs/_static/calculator-plans.js").read_text(encoding="utf-8"))
    context.eval(f"var plans = tunerPlans({json.dumps(plan_tab.page_data())});")
    return context


def asked(engine: Any, function: str, *given: object) -> Any:
    listed = ", ".join(json.dumps(one) for one in given)
    return json.loads(engine.eval(f"JSON.stringify(plans.{function}({listed}))"))


def said(engine: Any, **given: object) -> dict[str, Any]:
    return dict(asked(engine, "said", given))


def test_every_job_of_the_form_was_planned_on_every_number_of_gpus() -> None:
    assert list(planned.answers()) == list(JOBS)
    for job, answer in planned.answers().items():
        assert [number.gpus for number in answer.numbers] == GPUS, job
        assert any(number.seconds for number in answer.numbers), job


def test_the_file_has_known_models_and_cards() -> None:
    assert set(planned.MODELS) <= set(form.models())
    assert set(planned.CARDS) <= set(form.cards())


@pytest.mark.sampled(16)
@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job.model}-{job.card}-{job.prompts}-{job.response}")
def test_the_answer_in_the_file_is_the_one_of_today(job: PlannedJob) -> None:
    """Where it is not, ``python -m docs.tools.plan_points`` writes the file anew."""
    assert planned.answers()[job] == planned.planned(job)


#: Several cards at once, with and without prices.
TOGETHER = (
    ("Qwen2.5-7B-Instruct", 256, 2048, {"h100-sxm": 2.5, "h200-sxm": 3.15}),
    ("Qwen2.5-32B-Instruct", 256, 8192, {"a100-sxm-80g": None, "h100-sxm": 133.7}),
    ("Llama-3.3-70B-Instruct", 1024, 2048, {"h20-sxm": 0.8}),
)


@pytest.mark.sampled(12)  # each plans two cards on seven numbers of GPUs
@pytest.mark.parametrize(("model", "prompts", "response", "cards"), TOGETHER)
def test_the_table_is_the_one_that_the_command_prints(
    engine: Any, model: str, prompts: int, response: int, cards: dict[str, float | None]
) -> None:
    prices = {card: price for card, price in cards.items() if price is not None}
    answers = said(engine, model=model, prompts=prompts, response=response, cards=list(cards), prices=prices)
    command = asked(engine, "command", answers)
    printed = run(*command.replace("\\\n", "").split()[1:], "--isolated").out
    table = printed.split("Over numbers and cards\n")[1].split("\n\n")[0].splitlines()[1:]
    rows = asked(engine, "rows", answers)
    assert [line.split() for line in table] == [shown(row).split() for row in rows]
    least = asked(engine, "fewest", rows)
    nodes = f"{least['nodes']} node{'s' * (least['nodes'] > 1)}"
    assert f"Fewest GPUs: {least['gpus']} x {least['card']} on {nodes}\n" in printed
    (places,) = [place for place, line in enumerate(printed.splitlines()) if line.startswith("Fewest GPUs")]
    limits = " ".join(printed.splitlines()[places:])
    assert f"{least['fullest']} {least['room']}" in " ".join(limits.split())
    assert f"{least['share']} of the step is {least['longest']}" in " ".join(limits.split())


def shown(row: dict[str, Any]) -> str:
    """A row as the table of the command has it."""
    start = f"{row['card']} {row['gpus']} {row['nodes']}"
    if not row["fits"]:
        return f"{start} does not fit"
    step = f"{row['step']} ({row['low']} to {row['high']})" if row["low"] else row["step"]
    return f"{start} {step} {row['hours']} {row['efficiency']} {row['price']}"


def test_nothing_is_said_of_jobs_that_were_not_planned(engine: Any) -> None:
    start = said(engine)
    assert start == {**plan_tab.START, "cards": list(plan_tab.START_CARDS), "prices": {}}
    odd = said(engine, model="gpt2", prompts=300, response="x", cards=["t4"], prices={"h20-sxm": "-1"})
    assert odd == {**start, "cards": []}
    assert asked(engine, "rows", odd) == []
    assert asked(engine, "fewest", []) is None


def test_the_fewest_gpus_are_of_what_fits(engine: Any) -> None:
    rows = [
        {"card": "a", "gpus": 2, "nodes": 1, "fits": False},
        {"card": "a", "gpus": 8, "nodes": 1, "fits": True},
        {"card": "b", "gpus": 4, "nodes": 2, "fits": True},
        {"card": "b", "gpus": 4, "nodes": 1, "fits": True},
    ]
    assert asked(engine, "fewest", rows) == rows[3]


def test_a_link_keeps_the_answers(engine: Any) -> None:
    answers = said(
        engine,
        model=planned.MODELS[-1],
        prompts=planned.PROMPTS[-1],
        response=planned.RESPONSES[0],
        cards=list(planned.CARDS[:2]),
        prices={planned.CARDS[0]: "2.5", planned.CARDS[1]: ""},
    )
    link = asked(engine, "link", answers)
    assert asked(engine, "isLink", link)
    assert asked(engine, "read", link) == answers
    assert asked(engine, "read", "#gpus&model=%E0%A4%A&cards=h20-sxm&nothing") == {
        **said(engine),
        "cards": ["h20-sxm"],
    }
    assert not asked(engine, "isLink", "#gpus-elsewhere")


def test_a_price_is_written_as_the_command_writes_it(engine: Any) -> None:
    from tuner.render.plan_table import money

    chance = random.Random(7)
    answers = said(engine, cards=["h100-sxm"], response=2048)
    hours = [number.gpu_hours for number in planned.answers()[_start_job()].numbers if number.seconds]
    for _ in range(50):
        price = round(10 ** chance.uniform(-2, 5), 2)
        rows = asked(engine, "rows", {**answers, "prices": {"h100-sxm": price}})
        assert [row["price"] for row in rows if row["fits"]] == [money(price * each) for each in hours]


def _start_job() -> PlannedJob:
    return PlannedJob(model=str(plan_tab.START["model"]), card="h100-sxm", prompts=256, response=2048)


def test_without_a_script_the_page_has_the_table_of_what_the_form_says_first() -> None:
    panel = plan_tab.panel({**plan_tab.WORDS, "link": "Link", "command": "Command", "copy": "Copy"})
    for card in plan_tab.START_CARDS:
        answer = planned.answers()[PlannedJob(card=card, **plan_tab.START)]
        for number in answer.numbers:
            if number.seconds:
                assert f"<td>{plan_tab.row(number)[6]}</td>" in panel
    assert "/dev/null" in panel
    lacking = PlannedNumber(gpus=1, nodes=1, fullest="rollout", spare_bytes=2**30)
    assert plan_tab.row(lacking)[plan_tab.COLUMNS.index("room")] == "1.0 GiB"
