"""Inside a child: Python's words in a kernel, as Triton's compiler takes them.

``and``, ``or``, ``not``, ``max`` and ``min`` go over blocks element by element. The interpreter runs the kernel as
Python, to which a block is one thing that is true.
"""

import ast
import builtins
import functools
from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.runtime import interpreter as triton_interpreter


def install() -> None:
    """For the rest of this process. A kernel finds the names of the interpreter's module among its own."""
    triton_interpreter.FunctionRewriter.ast_transformer = _AsCompiled()
    triton_interpreter.chip_and = functools.partial(_logic, "logical_and", False)
    triton_interpreter.chip_or = functools.partial(_logic, "logical_or", True)
    triton_interpreter.chip_not, triton_interpreter.chip_call = _not, _call


class _AsCompiled(triton_interpreter.ASTTransformer):
    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        node.value = self.visit(node.value)  # Triton's own stops at an assignment
        return super().visit_Assign(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.Call:
        self.generic_visit(node)
        later = [ast.Lambda(ast.arguments([], [], None, [], [], None, []), value) for value in node.values]
        return _call_node("chip_and" if isinstance(node.op, ast.And) else "chip_or", later)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _call_node("chip_not", [node.operand]) if isinstance(node.op, ast.Not) else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("max", "min"):
            return _call_node("chip_call", [node.func, *node.args], node.keywords)
        return node


def _call_node(name: str, args: list[Any], named: Any = ()) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), args, list(named))


def _logic(word: str, decides: bool, *values: Callable[[], Any]) -> Any:
    """What is no block either decides or drops out."""
    blocks, value = [], None
    for each in values:
        if isinstance(value := each(), tl.tensor):
            blocks.append(value)
        elif bool(value) is decides:
            return value
    return functools.reduce(lambda first, second: getattr(first, word)(second), blocks) if blocks else value


def _not(value: Any) -> Any:
    return value == 0 if isinstance(value, tl.tensor) else not value


_BLOCKWISE = {builtins.max: "maximum", builtins.min: "minimum"}


def _call(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    if function in _BLOCKWISE and any(isinstance(arg, tl.tensor) for arg in args):
        function = getattr(tl, _BLOCKWISE[function])
    return function(*args, **named)
