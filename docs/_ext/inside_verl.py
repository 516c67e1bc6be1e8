"""``.. inside-verl-settings::``, ``-patches::`` and ``-updates:: FILE``: what a running verl gets.

The first two come out of the code, the last out of a recorded file.
"""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from folded import folded
from recorded_updates import DATA, cases, peak, seconds, warm
from tables import table
from tuner.inside_verl.installing import PATCHES
from tuner.inside_verl.patching import RELEASES
from tuner.inside_verl.settings import SETTINGS, EnvironmentSwitch


class Settings(SphinxDirective):
    """The environment variables."""

    def run(self) -> list[nodes.Node]:
        """One row for each."""
        header = ["Variable", "Values", "What it decides"]
        rows = [[f"``{setting.name}``", _values(setting), setting.does] for setting in SETTINGS]
        return table(self, header, rows, prose=header[2:], widths=[30, 25, 45])


def _values(setting: EnvironmentSwitch) -> str:
    values = " · ".join(f"``{value}``" for value in setting.values) or "``DIR``"
    return f"{values} (``{setting.default}``)" if setting.default else values


class Patches(SphinxDirective):
    """The functions of verl that are replaced."""

    def run(self) -> list[nodes.Node]:
        """One row for each, with its releases, behind a line that is always seen."""
        header = ["Patch", "Function of verl", "Releases", "What the replacement does"]
        rows = [
            [f"``{patch.name}``", f"``{patch.module}.{patch.attribute}``", _span(patch.releases), patch.does]
            for patch in PATCHES
        ]
        listed = table(self, header, rows, prose=header[3:], widths=[22, 30, 14, 34])
        for part in listed:
            for one in part.findall(nodes.table):
                one["classes"].append("long-names")
        return [folded(self, "What is replaced, function by function", listed)]


def _span(releases: tuple[str, ...]) -> str:
    first, last = RELEASES.index(releases[0]), RELEASES.index(releases[-1])
    whole = RELEASES[first : last + 1] == releases
    return f"{releases[0]}–{releases[-1]}" if whole and len(releases) > 1 else ", ".join(releases)


class Updates(SphinxDirective):
    """Measured updates of verl's engine, by head."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One row for each head, model and number of tokens; loss and gradient of the last update."""
        self.env.note_dependency(str(DATA / self.arguments[0]))
        header = ["Model", "Tokens", "Head", "Seconds", "Peak", "Loss", "Norm of the gradient"]
        return table(self, header, [_row(case) for case in cases(self.arguments[0])])


def _row(case: dict[str, Any]) -> list[str]:
    model = case["model"].rpartition("/")[2]
    several = f"{case['micro_batches']} × " if case.get("micro_batches", 1) > 1 else ""
    entropy = ", entropy" if case["entropy"] else ""
    named = [model, f"{several}{case['tokens']:,}{entropy}", f"``{case['head']}``"]
    if not warm(case):
        return [*named, _stopped(case["updates"][0]), "–", "–", "–"]
    last = warm(case)[-1]
    return [*named, f"{seconds(case):.2f} s", peak(case), f"{last['loss']:.4f}", f"{last['grad_norm']:.4f}"]


def _stopped(update: dict[str, Any]) -> str:
    """The error with which an engine ended, by its name."""
    return "OutOfMemoryError" if "out_of_memory" in update else str(update["error"]).partition(":")[0]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives."""
    app.add_directive("inside-verl-settings", Settings)
    app.add_directive("inside-verl-patches", Patches)
    app.add_directive("inside-verl-updates", Updates)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
