"""Prove that a change of wording changed no code.

python -m scripts.same_code BASE..HEAD        checks every commit of the range whose subject begins with "Reword"
python -m scripts.same_code --all BASE..HEAD  compares the two ends, whatever the subjects say

Two Python files have the same code if their syntax trees are equal without docstrings and other bare strings, and with
every message replaced by a placeholder. A message is a string with a space in it that is not SQL; the expressions in an
f-string must be the same ones, in any order. Two SQL files have the same code if they are equal without comments and
line breaks. Other files, such as documents, may change freely. Exit code 1 names each file that differs.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator

SUBJECT = "Reword"
SQL = re.compile(r"^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|PRAGMA|BEGIN|LOCK|NOTIFY|LISTEN)\b")
SQL_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


class _Neutral(ast.NodeTransformer):
    """Replaces messages by a placeholder, and drops bare strings."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and " " in node.value and not SQL.match(node.value):
            return ast.Constant("a message")
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        text = "".join(part.value for part in node.values if isinstance(part, ast.Constant))
        if " " not in text or SQL.match(text):
            return self.generic_visit(node)
        holes = [self.generic_visit(part) for part in node.values if not isinstance(part, ast.Constant)]
        return ast.Tuple([ast.Constant("a message"), *sorted(holes, key=ast.dump)], ast.Load())


def same_code(path: str, before: str, after: str) -> bool:
    """Whether two versions of a file differ in wording only."""
    if path.endswith(".py"):
        return _tree(before) == _tree(after)
    if path.endswith(".sql"):
        return _statements(before) == _statements(after)
    return True


def _tree(source: str) -> str:
    return ast.dump(_Neutral().visit(ast.parse(source)))


def _statements(source: str) -> list[str]:
    names = re.findall(r"^-- name: *(.*)$", source, re.MULTILINE)
    return [*names, *SQL_COMMENT.sub(" ", source).split()]


def differences(before: str, after: str) -> Iterator[str]:
    """The files that differ in code between two revisions."""
    for line in _git("diff", "--name-status", "--no-renames", before, after).splitlines():
        status, path = line.split("\t")
        if not path.endswith((".py", ".sql")):
            continue
        if status != "M" or not same_code(path, _git("show", f"{before}:{path}"), _git("show", f"{after}:{path}")):
            yield path


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, encoding="utf-8").stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("range", metavar="BASE..HEAD")
    parser.add_argument("--all", action="store_true", help="compare the two ends of the range")
    arguments = parser.parse_args()
    base, _, head = arguments.range.partition("..")
    if arguments.all:
        pairs = [(base, head or "HEAD", f"{base}..{head or 'HEAD'}")]
    else:
        log = _git("log", "--no-merges", "--format=%h %s", f"{base}..{head or 'HEAD'}").splitlines()
        subjects = (line.split(" ", 1) for line in log)
        pairs = [
            (f"{commit}^", commit, f"{commit} {subject}") for commit, subject in subjects if subject.startswith(SUBJECT)
        ]
    changed = 0
    for before, after, label in pairs:
        for path in differences(before, after):
            changed += 1
            sys.stdout.write(f"{label}: {path} differs in code\n")
    sys.stdout.write(f"{len(pairs)} changes of wording, {changed} files that differ in code\n")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
