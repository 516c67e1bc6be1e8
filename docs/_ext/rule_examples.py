"""``.. rule-example:: name``: what triggers a rule, and what the program answers to it today."""

from tempfile import NamedTemporaryFile

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes
from sphinx.util.typing import ExtensionMetadata

from tests.tables import Base, table
from tuner.advise import Recommendation
from tuner.cli.pipeline import consult
from tuner.cli.premises import Premises
from tuner.render.answer import Answer
from tuner.render.recommendations import recommendation
from tuner.render.terminal import Terminal

WIDTH = 84


def ask(base: Base, overrides: tuple[str, ...]) -> Answer:
    """The program's answer to a base with overrides, over an empty file."""
    keys = [
        f"actor_rollout_ref.model.path={base.model}",
        f"trainer.n_gpus_per_node={base.gpus_per_node}",
        f"trainer.nnodes={base.nodes}",
        *base.overrides,
        *overrides,
    ]
    premises = Premises(gpu=base.gpu, verl_version=base.version, engine_version=base.engine_version)
    with NamedTemporaryFile(suffix=".yaml") as empty:
        return consult(empty.name, keys, premises, zero_advantage_ratio=base.zero_advantage_ratio)


def entry(answer: Answer, name: str) -> Recommendation | None:
    """What the answer says by this rule."""
    matching = (item for item in answer.advice.recommendations if item.finding.rule.name == name)
    return next(matching, None)


class RuleExample(SphinxDirective):
    """The bad example of a rule's table of cases, and the entry it leads to."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Both as blocks that are not translated."""
        name = self.arguments[0]
        example = table(name)
        base = example.bad_base
        answer = ask(base, example.bad)
        item = entry(answer, name)
        if item is None:
            raise self.error(f"the bad example of {name} does not trigger it")
        premise = f"# {base.model}, {base.nodes} x {base.gpus_per_node} {base.gpu}, verl {base.version}"
        premise += f", --engine-version {base.engine_version}" if base.engine_version else ""
        ratio = base.zero_advantage_ratio
        premise += f", --zero-advantage-ratio {ratio:g}" if ratio else ""
        capacity = answer.advice.estimate.capacity_bytes
        said = recommendation(item, 1, Terminal(width=WIDTH), capacity_bytes=capacity)
        return [
            *self._sentence("These settings, over a configuration that triggers no rule, trigger this one:"),
            _block([premise, *example.bad]),
            *self._sentence("``tuner advise`` answers:"),
            _block(said.splitlines()),
        ]

    def _sentence(self, text: str) -> list[nodes.Node]:
        return nested_parse_to_nodes(self.state, StringList([text], source="<example>"))


def _block(lines: list[str]) -> nodes.literal_block:
    text = "\n".join(lines)
    return nodes.literal_block(text, text, language="text")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("rule-example", RuleExample)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
