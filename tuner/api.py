"""The commands as functions: what ``tuner`` answers, as the objects that its JSON Schemas describe.

Nothing is printed, no file is written, and no settings of a project are looked for.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from tuner.check.judge import EVERYTHING, FindingSelection, judge
from tuner.consultation.consult import EFFECTS, consult
from tuner.consultation.diff import compare
from tuner.consultation.failure import error_of, explain_of_job, explain_with_its_log
from tuner.consultation.head import consult_head
from tuner.consultation.planned_clusters import Clusters
from tuner.consultation.planning import plan_answer
from tuner.consultation.premises import LEAST_GAIN, Premises
from tuner.errors import InputError, TunerError, UnsupportedError
from tuner.files import STANDARD_INPUT, is_there, standard_input_kept
from tuner.inputs.named_inputs import Input
from tuner.language import _
from tuner.render.all_rules import known_rules
from tuner.render.checked.json import reported
from tuner.render.checked.report import CheckLine
from tuner.render.comparison_report import ComparisonReport, comparison_report
from tuner.render.failure_report import FailureReport, failure_report
from tuner.render.json import head_report, report
from tuner.render.plan_report import PlanReport, plan_report
from tuner.render.report import HeadReport, Report
from tuner.review.project.selection import Selection
from tuner.review.review import Review

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "CheckLine",
    "ComparisonReport",
    "FailureReport",
    "HeadReport",
    "InputError",
    "PlanPremiseValues",
    "PlanReport",
    "PremiseValues",
    "Report",
    "TunerError",
    "UnsupportedError",
    "advise",
    "check",
    "diff",
    "estimate_memory",
    "explain_oom",
    "plan",
]

Source = str | os.PathLike[str]
"""A file, or the first word of a command as it is typed."""


class PlanPremiseValues(TypedDict, total=False):
    """What is said of a job that is planned: the options of the commands, but for cards and their numbers."""

    verl_version: str | None
    engine_version: str | None
    model: str | None
    critic_model: str | None
    reward_model: str | None
    trace: bool
    gpu_memory: str | None
    network: str | None
    storage: str | None
    mean_prompt: float | None
    mean_response: float | None
    response_p95: float | None
    response_max: float | None
    kept_groups: float | None
    tool_seconds: float | None
    turns: float | None
    tool_tokens: int | None
    images_per_prompt: int | None
    image_pixels: int | None
    data_rows: int | None
    val_rows: int | None
    host_memory_gib: float | None
    headroom: float
    launch: int | None


class PremiseValues(PlanPremiseValues, total=False):
    """What is said of a job beside its configuration: the options of the commands, as keywords."""

    gpu: str | None
    gpus_per_node: int | None
    nodes: int | None


def advise(
    source: Source,
    *words: str,
    allow: Literal["nothing", "reweighted", "changed"] = "nothing",
    least_gain: float = LEAST_GAIN,
    zero_advantage_ratio: float | None = None,
    log: Source | None = None,
    **premises: "Unpack[PremiseValues]",
) -> Report:
    """Judge one configuration: whether it fits, and what to change.

    Args:
        source: a configuration, a launch script, a log, or a folder of a run.
        words: what follows it: overrides, or the arguments and variables of a script.
        allow: what the block to paste may do to the training.
        least_gain: share of the step that a line of the block has to bring, unless the job needs it.
        zero_advantage_ratio: share of the responses without advantage; None where nobody knows.
        log: of a run of it, or the end of one.
        premises: what the options of the command say, by the names of :class:`PremiseValues`.

    Raises:
        TunerError: something in the configuration or the premises cannot be used.
    """
    answer = consult(
        os.fspath(source),
        words,
        Premises(**premises),
        allow=EFFECTS[allow],
        least_gain=least_gain,
        zero_advantage_ratio=zero_advantage_ratio,
        log=None if log is None else os.fspath(log),
    )
    return report(answer)


def check(
    source: Source,
    *words: str,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    **premises: "Unpack[PremiseValues]",
) -> tuple[CheckLine, ...]:
    """The findings of one configuration, in the order of their lines.

    Comments in the file that ignore a finding are heard.

    Args:
        source: a configuration, a launch script, a log, or a folder of a run.
        words: what follows it: overrides, or the arguments and variables of a script.
        select: codes, names or groups of the rules that are asked; all where empty.
        ignore: of those that are not; a code that is selected is heard before its group.
        premises: what the options of the command say, by the names of :class:`PremiseValues`.

    Raises:
        TunerError: something in the configuration, the premises or the names cannot be used.
    """
    wanted = Selection(
        select=known_rules().resolved(select, None) if select else EVERYTHING.select,
        ignore=known_rules().resolved(ignore, None),
        min_evidence=EVERYTHING.min_evidence,
    )
    judged = judge(_input((source, *words)), Premises(**premises), FindingSelection(selection=wanted))
    return tuple(reported(Review(inputs=(judged.checked,))))


def diff(
    before: Source | Sequence[str],
    after: Source | Sequence[str] | None = None,
    *,
    verl_versions: tuple[str, str] | None = None,
    engine_versions: tuple[str, str] | None = None,
    **premises: "Unpack[PremiseValues]",
) -> ComparisonReport:
    """Two configurations, or one on two releases, and what the difference does to the job.

    Args:
        before: a configuration, or its words: the configuration and what follows it.
        after: the second one; the first one again where None.
        verl_versions: the releases of both sides.
        engine_versions: the versions of the rollout engine of both sides.
        premises: what is said beside both sides, by the names of :class:`PremiseValues`.

    Raises:
        TunerError: something in a configuration or the premises cannot be used.
    """
    if after is None and verl_versions is None and engine_versions is None:
        raise InputError(_("there is nothing to compare {config} with").format(config=before))
    sides: list[PremiseValues] = [{**premises}, {**premises}]
    for place, side in enumerate(sides):
        if verl_versions is not None:
            side["verl_version"] = verl_versions[place]
        if engine_versions is not None:
            side["engine_version"] = engine_versions[place]
    first = _side(before)
    inputs = (first, first if after is None else _side(after))
    return comparison_report(compare(inputs, [Premises(**side) for side in sides]))


def explain_oom(
    message: str | None,
    source: Source | None = None,
    *words: str,
    log: Source | None = None,
    **premises: "Unpack[PremiseValues]",
) -> FailureReport:
    """Explain an out-of-memory error.

    Args:
        message: the error as it was printed, with the traceback above it where there is one: a file that has
            it, or one line; None: the one that the log ends with.
        source: the configuration of the job that met it; None where nothing is known of the job.
        words: what follows the configuration.
        log: of a run of it, or the end of one.
        premises: what the options of the command say, by the names of :class:`PremiseValues`.

    Raises:
        TunerError: nothing says that memory ran out, or the configuration or the premises cannot be used.
    """
    of_run = None if log is None else os.fspath(log)
    error, stated = error_of(message, of_run), Premises(**premises)
    if source is None:
        return failure_report(explain_with_its_log(error, message or of_run or "", stated))
    return failure_report(explain_of_job(error, os.fspath(source), words, stated, log=of_run))


def plan(
    source: Source,
    *words: str,
    gpu: str | Sequence[str] | None = None,
    gpus_per_node: int | Sequence[int] | None = None,
    nodes: int | Sequence[int] | None = None,
    prices: Mapping[str, float] | None = None,
    hold: Sequence[str] = (),
    vary: Sequence[str] = (),
    longest: bool = False,
    **premises: "Unpack[PlanPremiseValues]",
) -> PlanReport:
    """Plan one job: the best settings on the GPUs that there are, and the fewest GPUs that it fits on.

    Of several cards the first one is planned in full, on the most GPUs that are named.

    Args:
        source: a configuration, a launch script, a log, or a folder of a run.
        words: what follows it: overrides, or the arguments and variables of a script.
        gpu: a card, or several; ``8xh100-sxm`` says how many a node has as well.
        gpus_per_node: of one node: a number, or all that are planned for.
        nodes: their number, or all that are planned for.
        prices: of a GPU-hour, by the card.
        hold: keys that stay as they are, or ``KEY=VALUE`` for those that are set and stay.
        vary: ``KEY=A,B`` for keys that a plan leaves alone by itself.
        longest: whether it is said how long responses may get.
        premises: what else the options of the command say, by the names of :class:`PlanPremiseValues`.

    Raises:
        TunerError: something in the configuration or the premises cannot be used, or nothing can be planned.
    """
    cards = (gpu,) if gpu is None or isinstance(gpu, str) else tuple(gpu)
    clusters = Clusters(
        cards=cards or (None,),
        nodes=_sizes("nodes", nodes),
        gpus_per_node=_sizes("gpus_per_node", gpus_per_node),
    )
    with standard_input_kept():  # a job is read for each number of GPUs and each card
        answer = plan_answer(
            os.fspath(source),
            words,
            Premises(**premises),
            clusters,
            prices=prices or {},
            held=hold,
            varied=vary,
            longest=longest,
        )
        return plan_report(answer)


def estimate_memory(
    *,
    vocab: int | str | None = None,
    tokens: int | str | None = None,
    hidden: int | str | None = None,
    dtype: str = "bf16",
    model: str | None = None,
    trace: bool = False,
    failed_allocation: str | None = None,
    gpu: str | None = None,
    gpu_memory: str | None = None,
) -> HeadReport:
    """What the output head, the activations and the KV cache of one micro-batch take.

    Args:
        vocab: entries of the vocabulary, as a number or as 152k; the model's where None.
        tokens: of the micro-batch on one GPU, as a number or as 16k.
        hidden: width of the model, which the fused heads depend on.
        dtype: number format of logits, activations and KV cache.
        model: a bundled name, a folder, or a ``config.json``; adds its activations and KV cache.
        trace: whether the model's tensors are counted in transformers' implementation.
        failed_allocation: an allocation that found no room, with its unit, which is then explained.
        gpu: a card that the heads are held against.
        gpu_memory: its memory, such as 24GiB; alone that of a card that is assumed.

    Raises:
        TunerError: a number or a name cannot be read, or neither a vocabulary nor a model is given.
    """
    numbers = {"vocab": vocab, "tokens": tokens, "hidden": hidden}
    answer = consult_head(
        **{name: None if number is None else str(number) for name, number in numbers.items()},
        dtype=dtype,
        model=model,
        trace=trace,
        failed_allocation=failed_allocation,
        gpu=gpu,
        gpu_memory=gpu_memory,
    )
    return head_report(answer)


def _sizes(name: str, given: int | Sequence[int] | None) -> tuple[int, ...] | None:
    """The numbers that are planned for, from the smallest on; None leaves them to the configuration.

    Raises:
        InputError: one of them is none of GPUs or nodes.
    """
    if given is None:
        return None
    numbers = tuple(sorted({given} if isinstance(given, int) else set(given)))
    if numbers and numbers[0] < 1:
        raise InputError(_("{name}={number}: expected at least 1").format(name=name, number=numbers[0]))
    return numbers or None


def _side(given: Source | Sequence[str]) -> Input:
    return _input((given,) if isinstance(given, str | os.PathLike) else tuple(given))


def _input(words: Sequence[Source]) -> Input:
    """What was given, with the words that follow it."""
    source, *behind = [os.fspath(word) for word in words]
    pasted = source != STANDARD_INPUT and not is_there(source)
    return Input(config=source, words=tuple(behind), pasted=pasted)
