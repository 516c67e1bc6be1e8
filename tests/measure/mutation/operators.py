"""Single changes to a source file that a test should notice: a mutant each."""

import ast
from dataclasses import dataclass

ARITHMETIC = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "/",
    ast.Mod: "*",
    ast.Pow: "*",
    ast.BitOr: "&",
    ast.BitAnd: "|",
}
COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
#: Operators whose terms may go one by one.
SUMS = (ast.Add, ast.Sub, ast.Mult)
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One change: the text between two offsets of a file becomes another."""

    file: str  # relative to the repository
    line: int
    function: str  # qualified name of the outermost function that holds it; empty at module level
    operator: str
    start: int  # offsets into the UTF-8 source
    end: int
    before: str
    after: str

    def applied(self, source: str) -> str:
        """The source with the change.

        Raises:
            ValueError: the text that it changes is not there.
        """
        data = source.encode()
        if data[self.start : self.end].decode() != self.before:
            raise ValueError(f"{self.file}:{self.line} no longer says {self.before!r}")
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()


class _Finder(ast.NodeVisitor):
    """Walks a file and notes every mutant of what runs; annotations, decorators and texts are left alone."""

    def __init__(self, file: str, source: str) -> None:
        self.file = file
        self.data = source.encode()
        self.starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.classes: list[str] = []
        self.function = ""
        self.mutants: list[Mutant] = []

    # Where a node stands

    def span(self, node: ast.AST) -> tuple[int, int]:
        start = self.starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self.starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode()

    def put(self, operator: str, node: ast.AST, after: str, *, at: tuple[int, int] | None = None) -> None:
        start, end = at or self.span(node)
        before = self.data[start:end].decode()
        line = self.data[:start].count(b"\n") + 1
        self.mutants.append(Mutant(self.file, line, self.function, operator, start, end, before, after))

    def between(self, left: ast.AST, right: ast.AST, old: str, new: str, operator: str) -> None:
        """Another operator between two operands, wherever parentheses and lines put it."""
        start, end = self.span(left)[1], self.span(right)[0]
        gap = self.data[start:end].decode()
        at = gap.find(old)
        if at >= 0 and "#" not in gap[:at]:
            begin = start + len(gap[:at].encode())
            self.put(operator, left, new, at=(begin, begin + len(old.encode())))

    # What is left alone

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.classes.append(node.name)
        self.body(node.body)
        self.classes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *(item for item in node.args.kw_defaults if item)):
            self.visit(default)
        outer, self.function = self.function, self.function or ".".join((*self.classes, node.name))
        self.body(node.body)
        self.function = outer

    def visit_Lambda(self, node: ast.Lambda) -> None:
        outer, self.function = self.function, self.function or ".".join((*self.classes, "<lambda>"))
        self.visit(node.body)
        self.function = outer

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts for readers are not the model."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """What never fails."""

    def visit_If(self, node: ast.If) -> None:
        if self.text(node.test) == "TYPE_CHECKING":
            return
        self.put("condition negated", node.test, f"(not ({self.text(node.test)}))")
        self.generic_visit(node)

    def body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                self.visit(statement)

    # What is changed

    def visit_BinOp(self, node: ast.BinOp) -> None:
        kind = type(node.op)
        if kind in ARITHMETIC:
            sign = _SIGNS[kind]
            self.between(node.left, node.right, sign, ARITHMETIC[kind], "arithmetic")
        if kind in SUMS:
            self.put("term dropped", node, f"({self.text(node.left)})")
            if kind is not ast.Sub:
                self.put("term dropped", node, f"({self.text(node.right)})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operation, right in zip(operands, node.ops, operands[1:], strict=False):
            self.between(left, right, _SIGNS[type(operation)], COMPARISONS[type(operation)], "comparison")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = "or" if isinstance(node.op, ast.And) else "and"
        texts = [self.text(value) for value in node.values]
        self.put("and, or", node, f"({f' {other} '.join(f'({text})' for text in texts)})")
        for left_out in range(len(texts)):
            rest = [f"({text})" for at, text in enumerate(texts) if at != left_out]
            self.put("condition dropped", node, f"({f' {_SIGNS[type(node.op)]} '.join(rest)})")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            self.put("not, minus", node, f"({self.text(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.put("constant", node, str(not node.value))
        elif isinstance(node.value, int):
            self.put("constant", node, str(node.value + 1))
        elif isinstance(node.value, float):
            self.put("constant", node, repr(node.value * 2 if node.value else 1.0))

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.put("one branch", node, f"({self.text(node.body)})")
        self.put("one branch", node, f"({self.text(node.orelse)})")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self.put("filter dropped", condition, "True")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in CALLS:
            self.put("min, max, any, all", node.func, CALLS[node.func.id])
        self.generic_visit(node)

    def _elements(self, node: ast.List | ast.Set | ast.Tuple) -> None:
        if len(node.elts) > 1 and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            for element, following in zip(node.elts, node.elts[1:], strict=False):
                start, end = self.span(element)[0], self.span(following)[0]
                self.put("element dropped", element, "", at=(start, end))
        self.generic_visit(node)

    visit_List = visit_Set = visit_Tuple = _elements  # noqa: N815  # names that ast prescribes

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.put("statement dropped", node, "pass")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call | ast.Yield | ast.YieldFrom):
            self.put("statement dropped", node, "(yield)" if isinstance(node.value, ast.Yield) else "None")
        self.generic_visit(node)


_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitOr: "|",
    ast.BitAnd: "&",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.And: "and",
    ast.Or: "or",
}


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Every mutant of a file, also such as Python refuses.

    Args:
        file: its path from the repository.
        source: what it says.
    """
    finder = _Finder(file, source)
    finder.body(ast.parse(source).body)
    return finder.mutants


def alike(mutant: Mutant, mutants: list[Mutant]) -> list[Mutant]:
    """The mutants of a file that make the same change of the same text in the same function, in order."""
    return [other for other in mutants if _change(other) == _change(mutant)]


def _change(mutant: Mutant) -> tuple[str, str, str, str]:
    return mutant.function, mutant.operator, mutant.before, mutant.after


def compiles(mutant: Mutant, source: str) -> bool:
    """Whether Python accepts the changed file."""
    try:
        compile(mutant.applied(source), mutant.file, "exec")
    except SyntaxError:
        return False
    return True
