"""What is run by hand on GPUs calls the functions of its neighbours as they are by now."""

import ast
from pathlib import Path

MEASURE = Path(__file__).parent


def test_a_configuration_is_written_with_the_arguments_that_its_function_has() -> None:
    trees = {file: ast.parse(file.read_text()) for file in MEASURE.rglob("*.py")}
    (function,) = [
        node
        for node in ast.walk(trees[MEASURE / "verl_engine" / "model.py"])
        if isinstance(node, ast.FunctionDef) and node.name == "write_config"
    ]
    wanted = {argument.arg for argument in function.args.kwonlyargs}
    calls = {
        file.parent.name: {keyword.arg for keyword in node.keywords}
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "write_config"
    }
    assert set(calls) == {"automodel", "recorded_run", "verl_engine"}
    assert all(given == wanted for given in calls.values()), calls
