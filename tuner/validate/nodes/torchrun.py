"""A validation that torchrun started on several nodes: this node's place, and all reports at the first."""

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.errors import InputError
from tuner.language import _
from tuner.validate.children import processes
from tuner.validate.children.call import Failed, Setup
from tuner.validate.children.servers import ServedFunction
from tuner.validate.nodes.merged_reports import GRACE_S, merged
from tuner.validate.report.schema import ValidationFile

_SHARE = ServedFunction.in_package(__package__, "worker", "share")
_REQUIRED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, kw_only=True)
class TorchrunProcess:
    """This process among those that torchrun started."""

    node: int
    nodes: int
    local_rank: int  # others than 0 have nothing to do: the first of a node starts its own processes
    address: str
    port: int
    hosted: bool  # torchrun keeps the store; else the first node does
    turn: int = 0  # of several validations of one launch, one after the other


def launched(environment: Mapping[str, str]) -> TorchrunProcess | None:
    """Read torchrun's variables; None where it has not started this process.

    Raises:
        InputError: one of them is no number.
    """
    if not all(environment.get(name) for name in _REQUIRED):
        return None
    try:
        local = int(environment.get("LOCAL_WORLD_SIZE", "1"))
        return TorchrunProcess(
            node=int(environment["RANK"]) // local,
            nodes=max(1, int(environment["WORLD_SIZE"]) // local),
            local_rank=int(environment.get("LOCAL_RANK", "0")),
            address=environment["MASTER_ADDR"],
            port=int(environment["MASTER_PORT"]),
            hosted=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        )
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(
            _("RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE or MASTER_PORT is unusable: {error}").format(
                error=error
            ),
            hint=_("torchrun sets these variables; unset them to validate this node alone"),
        ) from None


def gathered(launch: TorchrunProcess, file: ValidationFile, *, wait_s: float) -> tuple[ValidationFile, ...]:
    """Hand this node's report to the first one; there, one report for each kind of node.

    Args:
        launch: this process.
        file: this node's report.
        wait_s: for the slowest node, seconds.

    Returns:
        Nothing on other nodes than the first.
    """
    if launch.nodes == 1:
        return (file,)
    texts = processes.run(
        _SHARE,
        (launch, file.model_dump_json(by_alias=True), wait_s + GRACE_S),
        setup=Setup(device="cpu"),
        timeout_s=wait_s + 2 * GRACE_S,
    )
    if isinstance(texts, Failed):
        raise InputError(_("the nodes' reports could not be gathered: {texts}").format(texts=texts.message))
    if launch.node > 0:
        return ()
    files = [ValidationFile.model_validate_json(text) for text in texts if text is not None]
    silent = [
        _("node {index}: it did not report in time").format(index=index)
        for index, text in enumerate(texts)
        if text is None
    ]
    return merged(files, silent)
