"""The questions that an agent may ask, and how each is answered: by the command of the same name."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from pydantic import BaseModel

from tuner import api
from tuner.cli.agents import arguments
from tuner.cli.agents.parts import brief
from tuner.errors import InputError
from tuner.language import _
from tuner.render.json_text import published
from tuner.render.rule_page import content, find, pages

Given = dict[str, Any]


class Tool(Struct, frozen=True, kw_only=True):
    """One question that may be asked."""

    name: str
    description: str
    arguments: type[BaseModel]
    ask: Callable[[Given], dict[str, Any]]

    def answer(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one call, as JSON has it.

        Raises:
            ValidationError: an argument is missing, unknown or of another type.
            TunerError: something that was given cannot be used, or what decides is not known.
        """
        read = self.arguments.model_validate(given)
        return self.ask({name: getattr(read, name) for name in read.model_fields_set})


def _advise(given: Given) -> dict[str, Any]:
    parts = frozenset(given.pop("parts", ()))
    report = published(api.advise(given.pop("source"), *given.pop("words", ()), **given))
    _expect_card(report)
    return brief("advise", report, parts)


def _check(given: Given) -> dict[str, Any]:
    lines = api.check(given.pop("source"), *given.pop("words", ()), **given)
    return {"findings": [published(line) for line in lines]}


def _diff(given: Given) -> dict[str, Any]:
    source, words = given.pop("source"), given.pop("words", [])
    other, other_words = given.pop("other_source", None) or source, given.pop("other_words", [])
    if (other, other_words) == (source, words):
        raise InputError(_("both sides are the same"), hint=_("give other_words or other_source"))
    _expect_card_of(source, words, given)
    return dict(published(api.diff((source, *words), (other, *other_words), **given)))


def _plan(given: Given) -> dict[str, Any]:
    parts = frozenset(given.pop("parts", ()))
    source, words = given.pop("source"), given.pop("words", [])
    for name in ("gpu", "gpus_per_node", "nodes"):
        given[name] = given.get(name) or None
    if given["gpu"] is None:
        said = {name: value for name, value in given.items() if name in api.PlanPremiseValues.__annotations__}
        _expect_card_of(source, words, said)
    return brief("plan", published(api.plan(source, *words, **given)), parts)


def _explain_oom(given: Given) -> dict[str, Any]:
    message, source = given.pop("message"), given.pop("source", None)
    return dict(published(api.explain_oom(message, source, *given.pop("words", ()), **given)))


def _estimate_memory(given: Given) -> dict[str, Any]:
    return dict(published(api.estimate_memory(**given)))


def _rule(given: Given) -> dict[str, Any]:
    return content(find(pages(), given["name"]))


def _expect_card_of(source: str, words: list[str], said: Given) -> None:
    """Ask for the card of a job before it is compared or planned; see :func:`_expect_card`."""
    if not said.get("gpu") and not said.get("gpu_memory"):
        _expect_card(published(api.advise(source, *words, **said)))


def _expect_card(report: dict[str, Any]) -> None:
    """Refuse to answer on a card that nobody named: an agent would go by it without a look.

    Raises:
        InputError: the card was assumed.
    """
    if report["premises"]["gpu_assumed"]:
        raise InputError(
            _("nothing says which card the job runs on, and every number depends on it"),
            key="gpu",
            hint=_("ask for it, and give it with the GPUs of a node, such as 8xh100-sxm"),
        )


TOOLS = (
    Tool(
        name="advise",
        description="Does a job fit and start, where is memory tight, and which overrides make it faster? "
        "What combination.overrides holds is applied as a whole.",
        arguments=arguments.ADVISE,
        ask=_advise,
    ),
    Tool(
        name="check",
        description="What is dead, misspelt, refused or contradictory in a configuration, by line. The tool "
        "rule explains a finding's code.",
        arguments=arguments.CHECK,
        ask=_check,
    ),
    Tool(
        name="diff",
        description="What a change does to a job: memory by phase, seconds of the step, numerics. The second "
        "side is the first with other words, another file, or both.",
        arguments=arguments.DIFF,
        ask=_diff,
    ),
    Tool(
        name="plan",
        description="The best settings on the GPUs that there are, the fewest GPUs that a job fits on, and "
        "what each costs. Takes up to a minute.",
        arguments=arguments.PLAN,
        ask=_plan,
    ),
    Tool(
        name="explain_oom",
        description="Why a job ran out of memory: the phase, the tensor, the setting that decides, and what "
        "helps.",
        arguments=arguments.EXPLAIN_OOM,
        ask=_explain_oom,
    ),
    Tool(
        name="estimate_memory",
        description="What the output head, the activations and the KV cache of one micro-batch take, without "
        "a configuration.",
        arguments=arguments.ESTIMATE_MEMORY,
        ask=_estimate_memory,
    ),
    Tool(
        name="rule",
        description="The page of a rule: what it checks, why, when it does not apply, its sources, an "
        "example.",
        arguments=arguments.RULE,
        ask=_rule,
    ),
)
"""In the order in which a job is usually asked about."""
