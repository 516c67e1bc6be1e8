"""``tuner explain-oom``: why a job ran out of memory, from what it printed."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli import options
from tuner.cli.premises import Premises, with_premises
from tuner.cli.project_settings import SettingsNamed, project_for, with_project_settings
from tuner.language import _

if TYPE_CHECKING:
    from tuner.out_of_memory.reading import OutOfMemory
    from tuner.render.failure import ExplainedFailure

EXAMPLES = options.examples(
    "tuner explain-oom run.sh --message error.txt --gpu h100-sxm",
    "tuner explain-oom config.yaml actor_rollout_ref.rollout.n=8 --message - < error.txt",
    "tuner explain-oom --message error.txt --model qwen2.5-7b",
)
_WITHOUT_A_JOB = ("gpu", "model", "verl_version")  # premises by which an error alone is explained


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="explain-oom",
        help=options.summary(explain_oom),
        epilog=EXAMPLES,
        context_settings=options.PASTED,
    )(with_premises(explain_oom))


def explain_oom(
    config: options.MaybeConfig = None,
    overrides: options.Overrides = None,
    *,
    message: Annotated[
        str,
        typer.Option(
            "--message",
            metavar="FILE|-|LINE",
            help=_(
                "The error as it was printed, with the traceback above it where there is one: a file, - for "
                "standard input, or the one line."
            ),
        ),
    ],
    premises: Premises,
    named: SettingsNamed,
    output_format: options.TextOrJson = "text",
    color: options.Colour = "auto",
    verbose: options.Verbose = False,
) -> None:
    """Explain an out-of-memory error.

    Says in which phase memory ran out, which tensor found no room, what decides its size and by how much
    that must change. Without a configuration it says what follows from the error alone.
    """
    from tuner.errors import InputError
    from tuner.files import STANDARD_INPUT
    from tuner.render.terminal import Terminal, write

    options.refuse_misspelled((config or "", *(overrides or ())), with_premises(explain_oom))
    if message == config == "-":
        raise InputError(
            _("the configuration and the error cannot both come from standard input"),
            hint=_("give one of them as a file"),
        )
    error = _error(message)
    premises = with_project_settings(premises, project_for(config or STANDARD_INPUT, named))
    explained = (
        _without_a_job(error, premises) if config is None else _of_job(error, config, overrides, premises)
    )
    if output_format == "json":
        from tuner.render.failure_report import failure_json

        write(sys.stdout, failure_json(explained))
    else:
        from tuner.render.failure import failure_text

        write(sys.stdout, failure_text(explained, Terminal.of(sys.stdout, color)))


def _error(message: str) -> "OutOfMemory":
    """The error in what the option names."""
    from tuner.errors import InputError, Location
    from tuner.files import STANDARD_INPUT, is_there
    from tuner.inputs.pasted_text import read_pasted
    from tuner.inputs.secrets import without_secrets
    from tuner.out_of_memory.reading import read_out_of_memory

    is_file = message == STANDARD_INPUT or is_there(message)
    error = None if is_file else read_out_of_memory(without_secrets(message))
    if error is None:
        error = read_out_of_memory(read_pasted(message))
    if error is None:
        looked_for = (
            "CUDA out of memory. Tried to allocate ... GiB",
            "CUDA error: out of memory",
            "No available memory for the cache blocks",
            "KV cache is needed",
            "Free memory on device",
            "--mem-fraction-static",
            "cumem_allocator",
            "torch_memory_saver",
            "Cuda failure 2 'out of memory'",
            "node running low on memory",
            "SIGKILL",
        )
        raise InputError(
            _("nothing in it says that memory ran out"),
            location=Location(source=message),
            hint=_("looked for: {messages}").format(messages=_("; ").join(looked_for)),
        )
    return error


def _of_job(
    error: "OutOfMemory", config: str, overrides: list[str] | None, premises: Premises
) -> "ExplainedFailure":
    from tuner.advise.failure import explain_failure
    from tuner.cli.pipeline import consult_further
    from tuner.render.failure import ExplainedFailure
    from tuner.trainers.chosen import TRAINER

    answer, written = consult_further(config, overrides or (), premises)
    workload = answer.advice.workload
    failure = explain_failure(answer.advice, error, TRAINER.place_of(error.calls), written)
    keys = TRAINER.deciding_keys(failure.place, workload.release.version, workload, answer.settings)
    return ExplainedFailure(failure=failure, keys=keys, answer=answer, from_project=answer.from_project)


def _without_a_job(error: "OutOfMemory", premises: Premises) -> "ExplainedFailure":
    from tuner.advise.failure import explain_failure_alone
    from tuner.cli.find_model import model_shape
    from tuner.cli.hardware import choose_card
    from tuner.cli.pipeline import from_settings
    from tuner.render.failure import ExplainedFailure
    from tuner.trainers.chosen import TRAINER

    model = None if premises.model is None else model_shape(premises.model, trace=premises.trace)
    card = None if premises.gpu is None else choose_card(premises).gpu.capacity_bytes
    failure = explain_failure_alone(error, TRAINER.place_of(error.calls), model=model, capacity=card)
    version = TRAINER.choose_release(premises.verl_version).version
    keys = TRAINER.deciding_keys(failure.place, version)
    return ExplainedFailure(
        failure=failure,
        keys=keys,
        model=None if model is None else model.name,
        from_project=from_settings(premises, _WITHOUT_A_JOB),
    )
