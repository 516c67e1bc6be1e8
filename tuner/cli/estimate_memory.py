"""``tuner estimate-memory``: what the output head, the activations and the KV cache take."""

import sys
from typing import Annotated

import typer

from tuner.cli import options, premise_options
from tuner.cli.completion import bundled_models
from tuner.language import _

TOKENS = "16k"
EXAMPLES = options.examples(
    "tuner estimate-memory --vocab 152k --tokens 16k",
    "tuner estimate-memory --vocab 151936 --tokens 8192 --hidden 2048 --dtype float32",
    "tuner estimate-memory --model qwen2.5-7b --tokens 16k",
    "tuner estimate-memory --vocab 151936 --failed-allocation '18.54 GiB'",
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="estimate-memory", help=options.summary(estimate_memory), epilog=EXAMPLES)(
        estimate_memory
    )


def estimate_memory(
    vocab: Annotated[
        str | None,
        typer.Option(
            "--vocab",
            metavar="COUNT",
            help=_("Vocabulary entries; k means 1000."),
            show_default=_("the model's"),
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(
            "--tokens",
            metavar="COUNT",
            help=_("Tokens of one micro-batch on one GPU; k means 1024."),
            show_default=TOKENS,
        ),
    ] = None,
    hidden: Annotated[
        str | None,
        typer.Option(
            "--hidden",
            metavar="COUNT",
            help=_("Hidden width, which the fused heads depend on."),
            show_default=_("the model's, else 3584"),
        ),
    ] = None,
    dtype: Annotated[
        str,
        typer.Option("--dtype", metavar="NAME", help=_("Number format of logits, activations and KV cache.")),
    ] = "bf16",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME|DIR|FILE",
            help=_("Bundled model name, model folder or config.json; adds its activations and KV cache."),
            show_default=False,
            autocompletion=bundled_models,
        ),
    ] = None,
    trace: premise_options.Trace = False,
    output_format: options.TextOrJson = "text",
    failed_allocation: options.FailedAllocation = None,
    color: options.Colour = "auto",
    verbose: options.Verbose = False,
) -> None:
    """Weigh the output head, activations and KV cache.

    Compares every way to compute log-probabilities and entropy by its memory, forward-only and in training.
    """
    from tuner.cli.find_model import model_shape
    from tuner.dtypes import parse_dtype
    from tuner.errors import InputError
    from tuner.render.head_table import HeadSizes, head_text
    from tuner.render.terminal import Terminal, write
    from tuner.units import KIB, parse_count

    if trace and model is None:
        raise InputError(_("there is no model to trace"), hint=_("add --model NAME|DIR|FILE"))
    shape = model_shape(model, trace=trace) if model is not None else None
    if vocab is None and shape is None:
        raise InputError(
            _("neither a vocabulary nor a model is given"), hint=_("add --vocab 152k or --model NAME")
        )
    sizes = HeadSizes(
        tokens=parse_count(tokens or TOKENS, thousand=KIB),
        vocab=parse_count(vocab) if vocab is not None else (shape.vocab if shape else 0),
        hidden=parse_count(hidden) if hidden is not None else (shape.hidden if shape else 3584),
        dtype=parse_dtype(dtype),
    )
    if shape is not None and trace:
        from tuner.trace.limits import expect_counted_format

        expect_counted_format(shape, sizes.dtype)
    allocation = None
    if failed_allocation is not None:
        from tuner.advise.allocation import explain_without_a_job
        from tuner.memory.failed_allocation.explanation import parse_failed_allocation

        allocation = explain_without_a_job(
            parse_failed_allocation(failed_allocation),
            vocab=sizes.vocab,
            dtype=sizes.dtype,
            tokens=sizes.tokens if tokens is not None else None,
            model=shape,
        )
    if output_format == "json":
        from tuner.render.json import head_json

        write(sys.stdout, head_json(sizes, shape, allocation))
        return
    terminal = Terminal.of(sys.stdout, color)
    if allocation is not None:
        from tuner.render.allocation import allocation_text

        write(sys.stdout, allocation_text(allocation, terminal) + "\n\n")
    write(sys.stdout, head_text(sizes, shape, terminal))
