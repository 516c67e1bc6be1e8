"""``.. symptoms:: KIND``: what a log shows, where it comes from, and what ``tuner`` says of it.

The rows stand in a data file. Most have settings that bring the symptom about in the job of the guide:
the rule of the row must then be among the findings, and its message is shown as it is printed today.
"""

from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

import running_job
from kept_answers import cached_answer
from rule_pages import catalogue
from tables import table
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises

_FILE = "data/symptoms.yaml"


class Symptoms(SphinxDirective):
    """The rows of one kind."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A table: what is seen, what it is and what to change, what the program says."""
        path = Path(self.env.srcdir, _FILE)
        self.env.note_dependency(str(path))
        found = yaml.safe_load(path.read_text(encoding="utf-8"))[self.arguments[0]]
        rows = [[symptom["sees"], symptom["means"], self._symptom_text(symptom)] for symptom in found]
        header = ["The log shows", "What it is, what to change", "``tuner`` says"]
        nodes_of_table = table(self, header, rows, prose=header[:2], widths=[30, 36, 34])
        for node in nodes_of_table:
            node["classes"].append("symptoms")
        return nodes_of_table

    def _symptom_text(self, symptom: dict[str, Any]) -> str:
        name = symptom["rule"]
        if name not in catalogue():
            raise self.error(f"there is no rule {name!r}")
        link = f":doc:`{catalogue()[name].rule.code} <../rules/{name}>`"
        if "job" not in symptom:
            return link
        gpu, release = symptom.get("gpu", running_job.GPU), symptom.get("release", running_job.RELEASE)
        said = messages(symptom["job"], gpu=gpu, release=release, engine=symptom.get("engine"))
        if name not in said:
            raise self.error(f"{name} says nothing of the job with {symptom['job']}")
        return f"{link} ``{said[name]}``"


@cached_answer(words=True)
def messages(overrides: str, *, gpu: str, release: str, engine: str | None) -> dict[str, str]:
    """What each rule says of the guide's job with overrides."""
    premises = Premises(gpu=gpu, verl_version=release, engine_version=engine)
    job = str(running_job.ROOT / running_job.FILE)
    advice = consult(job, [*running_job.OVERRIDES, *overrides.split()], premises, block=False).advice
    findings = (item.finding for item in reversed(advice.recommendations))
    return {finding.rule.name: finding.message for finding in findings}  # the first of a rule's


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("symptoms", Symptoms)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
