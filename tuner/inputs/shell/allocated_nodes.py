"""The names of the nodes that Slurm gives a job, as ``scontrol show hostnames`` prints them: a line for each.

What the nodes are called nobody knows, and no setting hangs on it; how many they are, the script says.
Source: scontrol(1), ``show hostnames``.
"""

import re
from collections.abc import Sequence

from tuner.inputs.shell.launches import Launch
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.values import Text, text

_SHOW = ("show", "hostnames")
_SHORT = "hostname"  # scontrol takes its words abbreviated
_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
_NUMBERS = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES")
_MOST = 10_000
_NODE = "slurm-node-"  # what a node is called here
_NAME = re.compile(rf"{_NODE}\d+")


def printed_hostnames(words: Sequence[Text], scope: Scope) -> Text | None:
    """What ``scontrol show hostnames`` prints of the job's own nodes; None where nobody says how many."""
    known = [word.string for word in words[1:3]]
    if len(known) < 2 or known[0] != _SHOW[0] or known[1] not in (*_SHOW, _SHORT):
        return None
    listed = [unknown.name for word in words[3:] for unknown in word.unknowns]
    own = not words[3:] or (len(words) == 4 and len(listed) == 1 and listed[0] in _LISTS)
    values = [scope.variables.get(name) for name in _NUMBERS]
    number = next((value.string for value in values if isinstance(value, Text)), None)
    if not own or number is None or not number.isdecimal() or not 0 < int(number) <= _MOST:
        return None
    return text("".join(f"{_NODE}{index}\n" for index in range(1, int(number) + 1)))


def once_for_all_nodes(launches: Sequence[Launch]) -> tuple[Launch, ...]:
    """The launches without those that a loop starts at the same place on further nodes of one job."""
    kept: dict[object, Launch] = {}
    for launch in launches:
        words = tuple(_NAME.sub(_NODE, str(field.text)) for field in launch.arguments)
        kept.setdefault((launch.program, launch.location, launch.on_default_path, words), launch)
    return tuple(kept.values())
