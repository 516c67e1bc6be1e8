"""The calculator's question "how many GPUs?": its form, its table, and what its script is told."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from calculator import planned
from calculator.form import RELEASE
from calculator.planned import PlannedAnswer, PlannedNumber
from tuner.render.numbers import gib
from tuner.render.plan_table import small
from tuner.rules.wording import duration

Words = Mapping[str, str]
Cells = list[str | int | float]

#: What the form says when the page opens.
START_MODEL, START_PROMPTS, START_RESPONSE = "Qwen2.5-7B-Instruct", 256, 8192
START = {"model": START_MODEL, "prompts": START_PROMPTS, "response": START_RESPONSE}
START_CARDS = ("h100-sxm", "h200-sxm")
#: Where a row of the script has what.
COLUMNS = (
    *("gpus", "nodes", "step", "low", "high", "gpu_hours", "hours", "efficiency"),
    *("fullest", "room", "longest", "share", "problem"),
)
_TITLES = ("gpus", "nodes", "step", "hours", "efficiency", "price", "room", "time")
WORDS = {
    "tab:memory": "How much memory?",
    "tab:gpus": "How many GPUs?",
    "tabs": "Questions",
    "plan:form": "Job to plan",
    "plan:job": "Job",
    "plan:cards": "Cards, and the price of a GPU-hour",
    "plan:model": "Model",
    "plan:prompts": f"Prompts of a step, with {planned.PER_PROMPT} responses each",
    "plan:response": "Longest response, in tokens",
    "plan:price": "Price of a GPU-hour of {card}",
    "plan:result": "Numbers of GPUs",
    "plan:still": "Without JavaScript this is the plan of the command below.",
    "plan:fewest": "Fewest GPUs: {gpus} x {card} on {nodes} nodes",
    "plan:fewest_node": "Fewest GPUs: {gpus} x {card} on 1 node",
    "plan:none": "On none of these numbers the job is sure to fit.",
    "plan:no_card": "Choose a card.",
    "plan:not_planned": "This was not planned here: ask the command below.",
    "plan:costs": "A step takes {step} s ({low} to {high}) and {hours} GPU-hours.",
    "plan:costs_price": "A step takes {step} s ({low} to {high}) and {hours} GPU-hours, priced {price}.",
    "plan:limits": "{phase} leaves the least room, {room}; {longest} takes {share} of the step.",
    "plan:around": "{number} ({low} to {high})",
    "plan:lacks": "does not fit: {phase} lacks {room}",
    "plan:start": "does not fit: the engine would not start",
    "plan:host": "not sure to fit into the host's memory",
    "plan:doubt": "not sure to fit",
    "plan:unread": "cannot be read",
    "title:gpus": "GPUs",
    "title:nodes": "nodes",
    "title:step": "step, s",
    "title:hours": "GPU-hours",
    "title:efficiency": "efficiency",
    "title:price": "price",
    "title:room": "least room",
    "title:time": "most time",
}


def page_data() -> dict[str, object]:
    """What the script of the tab is told beside the words."""
    return {
        "start": {**START, "cards": list(START_CARDS)},
        "cards": list(planned.CARDS),
        "models": list(planned.MODELS),
        "prompts": list(planned.PROMPTS),
        "response": list(planned.RESPONSES),
        "columns": list(COLUMNS),
        "titles": list(_TITLES),
        "words": {
            model: {
                prompts: {response: command_words(model, prompts, response) for response in planned.RESPONSES}
                for prompts in planned.PROMPTS
            }
            for model in planned.MODELS
        },
        "options": {"nodes": _nodes(), "release": RELEASE},
        "answers": {
            "|".join((one.model, one.card, str(one.prompts), str(one.response))): [
                row(number) for number in one.numbers
            ]
            for one in planned.answers().values()
        },
    }


def command_words(model: str, prompts: int, response: int) -> list[str]:
    """The beginning of the command of a job."""
    return ["tuner plan /dev/null", *planned.overrides(model, prompts, response)]


def command(words: Sequence[str], cards: Iterable[str]) -> str:
    """The command that plans a job on some cards."""
    options = f"--gpu {','.join(cards)} --nodes {_nodes()} --verl-version {RELEASE}"
    return " \\\n  ".join([*words, options])


def _nodes() -> str:
    return f"{planned.NODES[0]}-{planned.NODES[-1]}"


def row(number: PlannedNumber) -> Cells:
    """What a number of GPUs comes to, written as ``tuner plan`` writes it, in the order of the columns."""
    told: dict[str, str | int | float] = dict.fromkeys(COLUMNS, "")
    told |= {"gpus": number.gpus, "nodes": number.nodes, "fullest": number.fullest}
    told |= {"room": gib(number.spare_bytes) if number.fullest else "", "problem": number.problem}
    if number.seconds:
        step, low, high = map(duration, (number.seconds, *number.ends))
        told |= {"step": step, "low": "" if low == high else low, "high": "" if low == high else high}
        told |= {"gpu_hours": number.gpu_hours, "hours": small(number.gpu_hours)}
        told |= {"efficiency": f"{number.efficiency:.0%}"}
        told |= {"longest": number.longest, "share": f"{number.share:.0%}"}
    return list(told.values())


# -- the page ---------------------------------------------------------------------------------


def panel(said: Words) -> str:
    """The tab with the answer for what its form says at first."""
    start = [one for one in planned.answers().values() if _is_start(one)]
    words = command_words(START_MODEL, START_PROMPTS, START_RESPONSE)
    fields = (
        _select(said["plan:model"], planned.MODELS)
        + _slider("prompts", said["plan:prompts"], planned.PROMPTS, START_PROMPTS)
        + _slider("response", said["plan:response"], planned.RESPONSES, START_RESPONSE)
    )
    job = f"<fieldset><legend>{escape(said['plan:job'])}</legend>{fields}</fieldset>"
    cards = "".join(_card(card, said) for card in planned.CARDS)
    cards = f"<fieldset><legend>{escape(said['plan:cards'])}</legend>{cards}</fieldset>"
    name = escape(said["plan:result"])
    return (
        f"<noscript><p>{escape(said['plan:still'])}</p></noscript>"
        f'<form class="calc-form calc-plan-form" aria-label="{escape(said["plan:form"])}" hidden>'
        f"{job}{cards}</form>"
        '<div class="calc-verdict calc-plan-verdict" role="status" aria-live="polite" hidden></div>'
        f'<div class="calc-table calc-plan-table" role="region" tabindex="0" aria-label="{name}">'
        f"{_table(start, said)}</div>"
        '<p class="calc-links" hidden><a class="calc-plan-link" href="#calc-panel-gpus">'
        f"{escape(said['link'])}</a></p>"
        f'<p class="calc-command-title" id="calc-plan-command">{escape(said["command"])} '
        f'<button type="button" class="calc-plan-copy" hidden>{escape(said["copy"])}</button></p>'
        '<pre class="calc-command calc-plan-command" tabindex="0" aria-labelledby="calc-plan-command">'
        f"{escape(command(words, START_CARDS))}</pre>"
    )


def _is_start(answer: PlannedAnswer) -> bool:
    same = all(getattr(answer, name) == value for name, value in START.items())
    return same and answer.card in START_CARDS


def _select(label: str, options: Iterable[str]) -> str:
    listed = "".join(
        f"<option{' selected' if name == START_MODEL else ''}>{escape(name)}</option>" for name in options
    )
    control = f'<select id="calc-plan-model" name="model">{listed}</select>'
    return f'<div class="calc-row"><label for="calc-plan-model">{escape(label)}</label>{control}</div>'


def _slider(name: str, label: str, values: Sequence[int], start: int) -> str:
    """A slider over the values that were planned, and no other ones."""
    place = values.index(start)
    control = (
        f'<span class="calc-amount"><input type="range" id="calc-plan-{name}" name="{name}" min="0" '
        f'max="{len(values) - 1}" step="1" value="{place}" aria-valuetext="{start}">'
        f'<span class="calc-value" aria-hidden="true">{start:,}</span></span>'
    )
    return f'<div class="calc-row"><label for="calc-plan-{name}">{escape(label)}</label>{control}</div>'


def _card(card: str, said: Words) -> str:
    checked = " checked" if card in START_CARDS else ""
    price = escape(said["plan:price"].format(card=card))
    return (
        f'<div class="calc-row calc-switch calc-card"><input type="checkbox" id="calc-plan-{card}" '
        f'name="cards" value="{card}"{checked}> <label for="calc-plan-{card}"><code>{card}</code></label>'
        f'<input type="number" name="price" data-card="{card}" min="0" step="any" inputmode="decimal" '
        f'aria-label="{price}"></div>'
    )


def _table(answers: Iterable[PlannedAnswer], said: Words) -> str:
    """The table as the script makes it, without prices."""
    titles = [name for name in _TITLES if name != "price"]
    head = "".join(f'<th scope="col">{escape(said[f"title:{name}"])}</th>' for name in titles)
    rows = "".join(
        f'<tbody><tr><th scope="rowgroup" colspan="{len(titles)}"><code>{answer.card}</code></th></tr>'
        + "".join(f"<tr>{_cells(number, said)}</tr>" for number in answer.numbers)
        + "</tbody>"
        for answer in answers
    )
    return f'<table class="docutils"><thead><tr>{head}</tr></thead>{rows}</table>'


def _cells(number: PlannedNumber, said: Words) -> str:
    told = dict(zip(COLUMNS, row(number), strict=True))
    size = f'<th scope="row">{number.gpus}</th><td>{number.nodes}</td>'
    if not number.seconds:
        missing = {"phase": told["fullest"], "room": told["room"]}
        text = said[f"plan:{number.problem or 'lacks'}"].format(**missing)
        return f'{size}<td colspan="5">{escape(text)}</td>'
    step = str(told["step"])
    if told["low"]:
        step = said["plan:around"].format(number=step, low=told["low"], high=told["high"])
    cells = (step, told["hours"], told["efficiency"])
    limits = (f"<td><code>{told[phase]}</code> {told[amount]}</td>" for phase, amount in _LIMITS)
    return size + "".join(f"<td>{escape(str(text))}</td>" for text in cells) + "".join(limits)


_LIMITS = (("fullest", "room"), ("longest", "share"))
