"""``tuner plan``: which layout, on how many GPUs of which card, for how long and at what price."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec.structs import replace

from tuner.check.project_settings import SettingsNamed, project_for, with_project_settings
from tuner.cli import FINDINGS, options, validate_options
from tuner.cli.completion import cards
from tuner.cli.documents import write_documents
from tuner.cli.option_groups import with_premises
from tuner.cli.premise_options import ANNOTATIONS
from tuner.consultation.premises import OPTIONS, Premises
from tuner.errors import InputError
from tuner.language import _

if TYPE_CHECKING:
    from tuner.consultation.planning import Clusters, PlanAnswer
    from tuner.plan.corrections import MeasuredPlan

EXAMPLES = options.examples(
    "tuner plan config.yaml --gpu 8xh100-sxm",
    "tuner plan config.yaml --gpu h100-sxm,h200-sxm --nodes 1-8 --price h100-sxm=2.5/h --price h200-sxm=3/h",
    "tuner plan run.sh --gpu 8xh100-sxm --hold actor_rollout_ref.rollout.tensor_model_parallel_size=2",
    "tuner plan config.yaml --gpu 8xh100-sxm --vary placement=colocated,one-step-off",
    "tuner plan config.yaml --validate 10m",
    "tuner plan config.yaml --gpu 8xh100-sxm --data-rows 7473 --output-format json",
)
_SEVERAL = ("gpu", "gpus_per_node", "nodes")  # of which a plan takes more than one
_OPTIONS = {name: annotation for name, annotation in ANNOTATIONS.items() if name not in _SEVERAL}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="plan", help=options.summary(plan), epilog=EXAMPLES, context_settings=options.PASTED)(
        with_premises(plan, {Premises: _OPTIONS})
    )


def plan(
    config: options.Config,
    overrides: options.Overrides = None,
    *,
    gpu: Annotated[
        str | None,
        typer.Option(
            OPTIONS["gpu"],
            metavar="[COUNTx]NAME|FILE,...",
            help=_(
                "GPUs to plan for, one or several with commas: names such as h100-sxm, or files of profiles; "
                "8xh100-sxm says how many one node has as well."
            ),
            show_default=False,
            autocompletion=cards,
        ),
    ] = None,
    gpus_per_node: Annotated[
        str | None,
        typer.Option(
            OPTIONS["gpus_per_node"],
            metavar="COUNT|COUNTS",
            help=_("GPUs of one node: a number, several with commas, or from-to by doubling."),
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            OPTIONS["nodes"],
            metavar="COUNT|COUNTS",
            help=_("Number of nodes: a number, several with commas, or from-to by doubling, such as 1-8."),
            show_default=False,
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--price",
            metavar="GPU=PRICE",
            help=_("Price of an hour of one GPU, such as h100-sxm=2.5/h. May be repeated."),
            show_default=False,
        ),
    ] = None,
    hold: Annotated[
        list[str] | None,
        typer.Option(
            "--hold",
            metavar="KEY[=VALUE]",
            help=_("A key that stays as it is, or as it is given here. May be repeated."),
            show_default=False,
        ),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="KEY=A,B,...",
            help=_(
                "A key that changes the training, which a plan leaves alone by itself, with values to plan "
                "for. May be repeated: all combinations are planned. placement=colocated,one-step-off,"
                "fully-async,separate plans where responses are generated, over all divisions of the GPUs."
            ),
            show_default=False,
        ),
    ] = None,
    validate: Annotated[
        str | None,
        typer.Option(
            "--validate",
            metavar="TIME",
            help=_(
                "Measure the first settings on the GPUs here, for so long in all, such as 10m, and rank all "
                "of them by what that shows."
            ),
            show_default=False,
        ),
    ] = None,
    ray: validate_options.Ray = None,
    premises: Premises,
    named: SettingsNamed,
    output_format: Annotated[
        Literal["text", "json", "markdown"],
        typer.Option(
            "--output-format", "-f", help=_("Text to read, JSON with everything in bytes, or Markdown.")
        ),
    ] = "text",
    color: options.Colour = "auto",
    verbose: options.Verbose = False,
) -> None:
    """Plan one job: the best settings on the GPUs that there are, and the fewest GPUs that it fits on.

    Layout, offloading, recomputation, micro-batches, head and rollout engine are chosen; what changes the
    training stays as it is. Every setting is judged as its overrides are read back.
    """
    from tuner.render.plan_progress import progress_on

    options.refuse_misspelled((config, *(overrides or ())), with_premises(plan, {Premises: _OPTIONS}))
    cards_named = None if gpu is None else tuple(name.strip() for name in gpu.split(","))
    clusters = _clusters(gpus_per_node, nodes)
    premises = replace(
        premises,
        gpu=None if cards_named is None else cards_named[0],
        gpus_per_node=None if clusters.gpus_per_node is None else clusters.gpus_per_node[-1],
        nodes=None if clusters.nodes is None else clusters.nodes[-1],
    )
    premises = with_project_settings(premises, project_for(config, named))
    clusters = replace(clusters, cards=cards_named or (premises.gpu,))
    from tuner.consultation.planning import plan_answer

    budget_s = _measuring_seconds(validate, config, ray)
    with progress_on(sys.stderr) as watch:
        answer = plan_answer(
            config,
            tuple(overrides or ()),
            premises,
            clusters,
            prices=dict(map(_price, price or ())),
            held=tuple(hold or ()),
            varied=tuple(vary or ()),
            watch=watch,
        )
    measured = None
    if budget_s is not None and answer.plan.settings:
        from tuner.cli.plan_validation import corrected

        measured = corrected(answer, budget_s, ray)
        if measured is None:
            return  # the first node prints
    _write(answer, measured, output_format, color)
    if answer.fewest is None:
        raise typer.Exit(FINDINGS)


def _measuring_seconds(validate: str | None, config: str, ray: str | None) -> float | None:
    """How long settings are measured; None where none are.

    Raises:
        InputError: it is no time, or nothing can be measured here.
    """
    if validate is None:
        return None
    from tuner.cli.plan_validation import expect_measurable
    from tuner.units import parse_seconds

    seconds = parse_seconds(validate)
    expect_measurable(config, ray)
    return seconds


def _write(
    answer: "PlanAnswer",
    measured: "MeasuredPlan | None",
    output_format: Literal["text", "json", "markdown"],
    color: options.ColourName,
) -> None:
    if output_format == "json":
        from tuner.render.plan_report import plan_json
        from tuner.render.terminal import write

        write(sys.stdout, plan_json(answer, measured))
    else:
        from tuner.render.plan import plan_document

        write_documents([plan_document(answer, measured)], output_format, color)


def _clusters(gpus_per_node: str | None, nodes: str | None) -> "Clusters":
    from tuner.consultation.planning import Clusters

    return Clusters(
        nodes=_numbers(OPTIONS["nodes"], nodes),
        gpus_per_node=_numbers(OPTIONS["gpus_per_node"], gpus_per_node),
    )


def _numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    """The numbers of an option: one, several with commas, or those from one to another by doubling.

    Raises:
        InputError: it has others.
    """
    if text is None:
        return None
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if (
            not first.isdecimal()
            or (dash and not last.isdecimal())
            or not 0 < int(first) <= int(last or first)
        ):
            raise InputError(
                _("{option} {text}: expected a number, numbers with commas, or from-to such as 1-8").format(
                    option=option, text=text
                )
            )
        number, most = int(first), int(last or first)
        while number < most:
            numbers.add(number)
            number *= 2
        numbers.add(most)
    return tuple(sorted(numbers))


def _price(text: str) -> tuple[str, float]:
    """A card with the price of its hour.

    Raises:
        InputError: it is none.
    """
    card, equals, amount = text.rpartition("=")
    try:
        price = float(amount.strip().removesuffix("/h"))
    except ValueError:
        price = -1.0
    if not equals or not card or not 0 <= price < float("inf"):
        raise InputError(_("--price {text}: expected GPU=PRICE, such as h100-sxm=2.5/h").format(text=text))
    return card.strip(), price
