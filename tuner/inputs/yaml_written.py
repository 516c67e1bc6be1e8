"""Writes single values as YAML that the reader takes for the same values."""

from typing import Any

import yaml

from tuner.inputs.yaml_nodes import FLOAT, FLOAT_BEGINS

_WIDE = 2**31  # no line is broken


class _Dumper(yaml.SafeDumper):
    """Puts text in quotation marks that the reader would take for a number, and writes no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list(FLOAT_BEGINS))
_Dumper.add_representer(str, _text)


def on_one_line(value: Any) -> str:
    """A value in flow style."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, width=_WIDE, allow_unicode=True, sort_keys=False
    )
    return text.removesuffix("...\n").rstrip("\n")
