"""``.. calculator::``: the forms that ask the memory model and the planner, in the page's language.

Without JavaScript the page shows the answer for what the form says at first, computed while it is built.
"""

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

from calculator import answer, form, plan_tab
from calculator.form import AMOUNTS, CHOICES, Amount, Choice
from tuner.render.bars import PARTS
from tuner.render.picture import colour
from worded import Worded

#: The memory model, which is written here; what asks it; its form; what was planned; its form and the tabs.
SCRIPTS = (
    *("calculator-memory.js", "calculator-answers.js", "calculator.js"),
    *("calculator-plans.js", "calculator-tabs.js"),
)
_GROUPS = {
    "Model and hardware": ("model", "card", "gpus", "nodes"),
    "Batch": ("prompts", "mini_batch", "responses", "prompt", "response", "budget"),
    "Trainer": (
        "strategy", "head", "entropy", "checkpointing", "param_offload", "optimizer_offload", "reference"
    ),
    "Rollout": ("fraction", "tensor_parallel"),
}  # fmt: skip
_LABELS = {
    "model": "Model",
    "card": "Card",
    "gpus": "GPUs of a node",
    "nodes": "Nodes",
    "prompts": "Prompts of a step",
    "mini_batch": "Prompts of a mini-batch",
    "responses": "Responses to a prompt",
    "prompt": "Longest prompt, in tokens",
    "response": "Longest response, in tokens",
    "budget": "Token budget of a GPU",
    "strategy": "Sharding",
    "head": "Output head",
    "entropy": "Entropy bonus",
    "checkpointing": "Gradient checkpointing",
    "param_offload": "Weights on the host between passes",
    "optimizer_offload": "Optimizer states on the host between updates",
    "reference": "Reference model of a KL loss",
    "fraction": "The engine's share of the card, in percent",
    "tensor_parallel": "Tensor-parallel size of the engine",
}
_OPTIONS = {
    "fsdp2": "FSDP2",
    "fsdp": "FSDP1",
    "logits": "logits",
    "chunked": "logits, the entropy in chunks",
    "fused_torch": "fused, in torch",
    "fused_triton": "fused, in Triton",
    "none": "none",
    "kept": "stays on the card",
    "offloaded": "on the host between passes",
}
_ANSWERS = {
    "fits": "FITS",
    "may_not_fit": "MAY NOT FIT: sizes that are not derived may be larger than expected, or smaller.",
    "does_not_fit": "DOES NOT FIT with every sequence at its maximum length.",
    "will_not_start": "WILL NOT START:",
    "impossible": "No such job: a tensor-parallel replica needs more GPUs than there are.",
    "phase": "Phase",
    "peak": "Peak",
    "interval": "Between",
    "worst": "Worst phase",
    "capacity": "Memory of the card",
    "free": "Left free at the worst moment",
    "kv_tokens": "Tokens in the KV cache of a replica",
    "concurrent": "Sequences of full length in it at once",
    "running": "Sequences that a replica runs at once",
    "command": "The same question on the command line",
    "copy": "Copy",
    "copied": "Copied",
    "link": "Link to these settings",
    "reset": "Start over",
    "card_line": "the card",
    "result": "Memory of one GPU",
    "numbers": "The numbers",
    "form": "Settings",
    "still": "Without JavaScript this is the answer for the settings of the command below.",
}


def words() -> dict[str, str]:
    """The texts of the page in English, by their names."""
    texts = {f"said:{text}": text for text in answer.texts()}
    parts = {f"part:{part.item.value}": part.label for part in PARTS}
    return {
        **{f"group:{group}": group for group in _GROUPS},
        **{f"label:{name}": text for name, text in _LABELS.items()},
        **{f"option:{name}": text for name, text in _OPTIONS.items()},
        **_ANSWERS,
        **plan_tab.WORDS,
        **parts,
        **texts,
    }


class CalculatorForm(Worded):
    """The calculator, whose texts are translated before it is written."""


class Calculator(SphinxDirective):
    """The form with its answer."""

    def run(self) -> list[nodes.Node]:
        """One node, which is written as HTML alone."""
        original = words()
        calculator = CalculatorForm(words=dict(original), original=original)
        self.set_source_info(calculator)
        return [calculator]


# -- the form ---------------------------------------------------------------------------------


def _field(name: str, said: Mapping[str, str]) -> str:
    label = escape(said[f"label:{name}"])
    fields = {field.name: field for field in (*AMOUNTS, *CHOICES)}
    start = form.start()[name]
    if name in ("model", "card"):
        listed = form.models() if name == "model" else form.cards()
        return _row(name, label, _select(name, {one: one for one in listed}, str(start)))
    field = fields[name]
    if isinstance(field, Amount):
        return _row(name, label, _amount(field, label))
    if tuple(field.options) == ("off", "on"):
        checked = " checked" if field.start == "on" else ""
        box = f'<input type="checkbox" id="calc-{name}" name="{name}"{checked}>'
        return f'<div class="calc-row calc-switch">{box} <label for="calc-{name}">{label}</label></div>'
    return _row(name, label, _choice(field, said))


def _row(name: str, label: str, control: str) -> str:
    return f'<div class="calc-row"><label for="calc-{name}">{label}</label>{control}</div>'


def _amount(field: Amount, label: str) -> str:
    """A number with a slider beside it; the slider's own scale is the script's."""
    number = (
        f'<input type="number" id="calc-{field.name}" name="{field.name}" min="{field.low}" '
        f'max="{field.high}" step="1" value="{field.start}" inputmode="numeric">'
    )
    slider = f'<input type="range" aria-label="{label}" data-of="{field.name}" hidden>'
    return f'<span class="calc-amount">{slider}{number}</span>'


def _choice(field: Choice, said: Mapping[str, str]) -> str:
    return _select(
        field.name, {name: said.get(f"option:{name}", name) for name in field.options}, field.start
    )


def _select(name: str, options: Mapping[str, str], start: str) -> str:
    listed = "".join(
        f'<option value="{escape(value)}"{" selected" if value == start else ""}>{escape(text)}</option>'
        for value, text in options.items()
    )
    return f'<select id="calc-{name}" name="{name}">{listed}</select>'


def _form(said: Mapping[str, str]) -> str:
    groups = "".join(
        f"<fieldset><legend>{escape(said[f'group:{group}'])}</legend>"
        + "".join(_field(name, said) for name in names)
        + "</fieldset>"
        for group, names in _GROUPS.items()
    )
    return f'<form class="calc-form" aria-label="{escape(said["form"])}" hidden>{groups}</form>'


# -- the page ---------------------------------------------------------------------------------


def page_data(said: Mapping[str, str]) -> dict[str, object]:
    """What the page's own script is told."""
    return {
        "words": dict(said),
        "start": form.start(),
        "amounts": [[one.name, one.low, one.high, one.key, one.per] for one in AMOUNTS],
        "choices": {one.name: {name: list(keys) for name, keys in one.options.items()} for one in CHOICES},
        "common": list(form.COMMON),
        "model_key": form.MODEL_KEY,
        "release": form.RELEASE,
        "models": {name: row for row, names in enumerate(form.shapes().values()) for name in names},
        "cards": {name: row for row, name in enumerate(form.cards())},
        "parts": [[part.item.value, part.letter, colour(part)] for part in PARTS],
    }


def _tabs(said: Mapping[str, str]) -> str:
    """The questions, of which a script shows one at a time."""
    tabs = "".join(
        f'<button type="button" role="tab" id="calc-tab-{name}" aria-controls="calc-panel-{name}">'
        f"{escape(said[f'tab:{name}'])}</button>"
        for name in ("memory", "gpus")
    )
    return f'<div class="calc-tabs" role="tablist" aria-label="{escape(said["tabs"])}" hidden>{tabs}</div>'


def _told(name: str, data: Mapping[str, object]) -> str:
    """Data for a script."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _visit(writer: HTML5Translator, node: CalculatorForm) -> None:
    said = node["words"]
    folder = Path(writer.builder.outdir, "_static")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCRIPTS[0]).write_text(answer.memory_script(), encoding="utf-8")
    writer.body.append(
        f'<div class="calculator">{_tabs(said)}'
        f'<section id="calc-panel-memory" aria-label="{escape(said["tab:memory"])}">'
        f"{_form(said)}{answer.example(form.start(), said)}</section>"
        f'<section id="calc-panel-gpus" class="calc-plan" aria-label="{escape(said["tab:gpus"])}">'
        f"{plan_tab.panel(said)}</section>"
        + _told("calc-data", page_data(said))
        + _told("calc-plans", plan_tab.page_data())
        + "".join(f'<script src="_static/{name}"></script>' for name in SCRIPTS)
        + "</div>\n"
    )
    raise nodes.SkipNode


def _skip(writer: object, node: CalculatorForm) -> None:
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive and the form."""
    app.add_node(CalculatorForm, html=(_visit, None), text=(_skip, None), gettext=(_skip, None))
    app.add_directive("calculator", Calculator)
    app.add_css_file("calculator.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
