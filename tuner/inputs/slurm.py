"""What a launch script asks Slurm for in its ``#SBATCH`` lines: GPUs, and the host memory beside them.

Source: sbatch(1), ``--gres``, ``--gpus-per-node``, ``--gpus``, ``--nodes``, ``--mem``, ``--mem-per-gpu``,
``--mem-per-cpu`` and the options that count CPUs; lines behind the first command are not read, and of one
option the last counts.
"""

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from tuner.units import GIB, KIB, MIB

_LINE = re.compile(r"#SBATCH\s+(.*)")
_OPTION = re.compile(
    r"(?:^|\s)(--(?:gres|gpus-per-node|gpus|nodes|mem|mem-per-gpu|mem-per-cpu|cpus-per-task|cpus-per-gpu"
    r"|ntasks-per-node|ntasks)|-[GNcn])(?:[=\s]\s*|(?=\d))(\S+)"
)
_LONG = {"-G": "--gpus", "-N": "--nodes", "-c": "--cpus-per-task", "-n": "--ntasks"}
_EXCLUSIVE = re.compile(r"(?:^|\s)(--exclusive)(?=\s|$|=)()")
_OF_GRES = re.compile(r"(?:^|,)(?:gres[:/])?gpu(?:[:=]([^,(]+))?(?=[,(]|$)")
_MOST_OF_ONE_NODE = 8  # of a job that names no nodes: a total above spreads, as machines have no more
_MEMORY = re.compile(r"(\d{1,9})([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"K": KIB, "": MIB, "M": MIB, "G": GIB, "T": 1024 * GIB}
_MOST_MEMORY = 1024**5  # bytes; no node has more
_NUMBER_OF_NODES = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES")
_OF_OPTIONS = {
    "--gpus-per-node": "SLURM_GPUS_PER_NODE",  # with the kind, if it is asked for by that
    "--cpus-per-task": "SLURM_CPUS_PER_TASK",
    "--ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "--ntasks": "SLURM_NTASKS",
}
_DIGITS = 6  # as many as no cluster has nodes
_GPUS = re.compile(r"(?:([A-Za-z][\w-]*)(?::|$))?([1-9]\d{0,2})?")


class SlurmGpus(Struct, frozen=True, kw_only=True):
    """What a job gets on each of its nodes."""

    name: str  # of the card, as the cluster calls it; empty where the script takes any
    per_node: int | None  # None where that is not said
    line: int  # of the script, from 1


class SlurmMemory(Struct, frozen=True):
    """The host memory that a job gets on each of its nodes."""

    size: int  # bytes
    line: int  # of the script, from 1


class _SbatchOption(Struct, frozen=True):
    """The value of one of its options, and the line that has it."""

    value: str
    line: int


def slurm_gpus(text: str) -> SlurmGpus | None:
    """What a script asks for; None where it asks for no GPU."""
    asked = _options(text)
    per_node = asked.get("--gpus-per-node")
    if per_node is not None:
        return _gpus(per_node.value, per_node.line)
    gres = asked.get("--gres")
    kinds = [] if gres is None else _OF_GRES.findall(gres.value)
    if gres is not None and kinds:
        return _gpus(kinds[0] or "1", gres.line) if len(kinds) == 1 else None
    total = asked.get("--gpus")
    found = None if total is None else _gpus(total.value, total.line)
    nodes = asked.get("--nodes")
    return None if found is None else _shared_out(found, None if nodes is None else nodes.value)


def slurm_memory(text: str) -> SlurmMemory | None:
    """The host memory that a script asks for on a node; None where it asks for none, or for no GPU beside it.

    A job without GPUs only starts another that has them. ``--mem=0`` asks for all that a node has, and a job
    that has its nodes for itself gets their other CPUs and GPUs too, each with its share.
    """
    asked, gpus = _options(text), slurm_gpus(text)
    named = [name for name in ("--mem", "--mem-per-gpu", "--mem-per-cpu") if name in asked]
    if gpus is None or len(named) != 1:
        return None
    option = asked[named[0]]
    match = _MEMORY.fullmatch(option.value)
    size = 0 if match is None else int(match[1]) * _UNITS[match[2].upper()]
    if named[0] != "--mem":
        shares = gpus.per_node if named[0] == "--mem-per-gpu" else _cpus(asked, gpus)
        size *= 0 if shares is None or "--exclusive" in asked else shares
    return SlurmMemory(size, option.line) if 0 < size <= _MOST_MEMORY else None


def _cpus(asked: Mapping[str, _SbatchOption], gpus: SlurmGpus) -> int | None:
    """The CPUs that a job gets on a node; None where its script leaves them to the cluster, or to spread."""

    def number(name: str) -> int | None:
        value = asked[name].value if name in asked else ""
        return int(value) if value.isdecimal() and len(value) < 6 else None

    for_gpu, for_task = number("--cpus-per-gpu"), number("--cpus-per-task")
    if for_gpu is not None:
        return None if gpus.per_node is None else for_gpu * gpus.per_node
    tasks = number("--ntasks-per-node")
    if tasks is None and "--ntasks-per-node" not in asked:
        nodes, total = number("--nodes") or 1, number("--ntasks") if "--ntasks" in asked else 1
        stay = total == 1 or (total is not None and "--nodes" in asked and total % nodes == 0)
        tasks = max(1, total // nodes) if stay and total is not None else None
    return None if for_task is None or tasks is None else for_task * tasks


def slurm_variables(text: str) -> Mapping[str, str]:
    """The variables that Slurm gives a script by what its lines ask for: the nodes, and what each has.

    Source: sbatch(1), ``SLURM_JOB_NUM_NODES`` "(and SLURM_NNODES for backwards compatibility)",
    ``SLURM_GPUS_ON_NODE``, and those that are "only set if" an option is: ``SLURM_GPUS_PER_NODE`` ...
    """
    asked, gpus = _options(text), slurm_gpus(text)
    nodes = asked.get("--nodes")
    given: dict[str, str] = {}
    if nodes is not None and nodes.value.isdecimal() and len(nodes.value) < _DIGITS:
        given |= dict.fromkeys(_NUMBER_OF_NODES, nodes.value)
    if gpus is not None and gpus.per_node is not None:
        given["SLURM_GPUS_ON_NODE"] = str(gpus.per_node)
    for name, variable in _OF_OPTIONS.items():
        if name in asked and "$" not in asked[name].value:
            given[variable] = asked[name].value
    return given


def _options(text: str) -> Mapping[str, _SbatchOption]:
    """The options of a script's job by their long names."""
    asked = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            break
        said = _LINE.match(line)
        words = said[1].partition(" #")[0] if said else ""
        for name, value in (*_OPTION.findall(words), *_EXCLUSIVE.findall(words)):
            asked[_LONG.get(name, name)] = _SbatchOption(value.strip("\"'"), number)
    return asked


def _gpus(value: str, line: int) -> SlurmGpus | None:
    """GPUs as ``L40S:4``, ``L40S`` or ``4`` names them; None for several kinds, or a variable."""
    match = _GPUS.fullmatch(value)
    if match is None or not value:
        return None
    number = int(match[2]) if match[2] else 1
    return SlurmGpus(name=match[1] or "", per_node=number, line=line)


def _shared_out(total: SlurmGpus, nodes: str | None) -> SlurmGpus:
    """GPUs of a whole job, by its nodes: one where it names none and one has them."""
    gpus = total.per_node or 0
    if nodes is None:
        per_node = gpus if gpus <= _MOST_OF_ONE_NODE else None
    else:
        count = int(nodes) if nodes.isdecimal() and len(nodes) < _DIGITS else 0
        per_node = gpus // count if count and gpus % count == 0 else None
    return replace(total, per_node=per_node)
