"""Runs verl's own trainer on random weights, and holds what it took beside what was predicted.

    PYTHONPATH=.:tests python -m measure.whole_run materials PLAN FOLDER
    python tests/measure/whole_run/weights.py FOLDER/MODEL
    PYTHONPATH=.:tests python -m measure.whole_run predict PLAN --prompt-tokens MEAN --output FILE
    PYTHONPATH=.:tests python -m measure.whole_run run PLAN FOLDER --output DIR [--limit SECONDS]
    PYTHONPATH=.:tests python -m measure.whole_run collect DIR FILE
    PYTHONPATH=.:tests python -m measure.whole_run compare FILE [--output FILE]

``PLAN`` is a name in ``plans``, or a file. ``run`` needs the GPUs of its plan, verl 0.9.1, vLLM and Ray; the
other steps need none of them. The file that ``collect`` writes is a record: ``tuner advise FILE`` and
``tuner accuracy FILE`` read it.
"""

import argparse
import json
import sys
from pathlib import Path


def main() -> None:
    """One step of a run."""
    arguments = _arguments()
    sys.exit(arguments.do(arguments))


def _materials(arguments: argparse.Namespace) -> int:
    from measure.whole_run.materials import write_materials
    from measure.whole_run.plan import read_plan

    print(json.dumps(write_materials(read_plan(arguments.plan), arguments.folder)))
    return 0


def _predict(arguments: argparse.Namespace) -> int:
    from measure.whole_run.compare import prediction
    from measure.whole_run.plan import read_plan

    answer = prediction(read_plan(arguments.plan), arguments.prompt_tokens)
    arguments.output.write_text(json.dumps(answer, indent=1) + "\n")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from measure.whole_run.job import LOG, run_job, trouble
    from measure.whole_run.plan import read_plan

    plan = read_plan(arguments.plan)
    code = run_job(plan, arguments.folder.absolute(), arguments.output.absolute(), limit_s=arguments.limit)
    if code:
        print("\n".join(trouble(arguments.output / LOG)))
    return code


def _collect(arguments: argparse.Namespace) -> int:
    from measure.whole_run.collect import write_file

    write_file(arguments.folder, arguments.file)
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    from measure.whole_run.compare import compared, table

    comparison = compared(arguments.file)
    print(table(comparison))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(comparison, indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True)
    materials = steps.add_parser("materials", help="write what a run reads, but for the weights")
    materials.add_argument("plan")
    materials.add_argument("folder", type=Path)
    materials.set_defaults(do=_materials)
    predict = steps.add_parser("predict", help="write down what is predicted before a run")
    predict.add_argument("plan")
    predict.add_argument("--prompt-tokens", type=float, required=True, help="mean, as materials prints it")
    predict.add_argument("--output", type=Path, required=True)
    predict.set_defaults(do=_predict)
    run = steps.add_parser("run", help="start the trainer")
    run.add_argument("plan")
    run.add_argument("folder", type=Path, help="the materials, with weights")
    run.add_argument("--output", type=Path, required=True, help="folder of the run")
    run.add_argument("--limit", type=float, default=540.0, help="seconds after which it is ended")
    run.set_defaults(do=_run)
    collect = steps.add_parser("collect", help="put a run into one file")
    collect.add_argument("folder", type=Path)
    collect.add_argument("file", type=Path)
    collect.set_defaults(do=_collect)
    compare = steps.add_parser("compare", help="hold a run beside its prediction")
    compare.add_argument("file", type=Path)
    compare.add_argument("--output", type=Path, help="the comparison as JSON")
    compare.set_defaults(do=_compare)
    return parser.parse_args()


if __name__ == "__main__":
    main()
