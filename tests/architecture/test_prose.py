"""Prose names components, not persons: "a worker with a pending poll", not "who waits".

The guard counts the words of `PERSON_WORDS` per 1,000 words, once over the prose of the source (comments, docstrings
and strings with a space in `src/**/*.py`, comments in `src/**/*.sql`) and once over the documents (the files that
`DOCUMENTS` lists, and `docs/**/*.md`). At most 0.5 per 1,000 words are allowed in each.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, SRC, modules

PERSON_WORDS = (
    "who",
    "whoever",
    "whom",
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "told",
    "hear",
    "hears",
    "heard",
    "meanwhile",
    "goes on",
)
DOCUMENTS = "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md", "SECURITY.md", "CHANGELOG.md"

MAX_IN_SOURCE = 0.5
"""Person words per 1,000 words of prose in `src`."""
MAX_IN_DOCUMENTS = 0.5
"""Person words per 1,000 words of the documents."""
MAX_FILES_NAMED = 10
"""Files that the message of a failure names: those with the most person words."""

PERSON = re.compile(rf"\b(?:{'|'.join(PERSON_WORDS)})\b".replace(" ", r"\s+"), re.IGNORECASE)
WORD = re.compile(r"\w+(?:['’]\w+)*")
SQL_COMMENT = re.compile(r"--([^\n]*)|/\*(.*?)\*/", re.DOTALL)


@pytest.mark.xdist_group("source")
def test_source_names_components_and_not_persons() -> None:
    src = ROOT / "src"
    prose = {SRC / name: python_prose((SRC / name).read_text("utf-8"), parsed) for name, parsed in modules().items()}
    prose |= {path: sql_prose(path.read_text("utf-8")) for path in src.rglob("*.sql")}
    _check(prose, MAX_IN_SOURCE)


def test_documents_name_components_and_not_persons() -> None:
    paths = [*(ROOT / name for name in DOCUMENTS), *(ROOT / "docs").rglob("*.md")]
    _check({path: path.read_text("utf-8") for path in paths}, MAX_IN_DOCUMENTS)


@pytest.mark.parametrize("word", PERSON_WORDS)
def test_a_planted_word_is_found_wherever_prose_is(word: str) -> None:
    python = f'''
"""A docstring: {word}."""
LENGTH = 1  # A comment: {word.upper()}.
"""Below a constant: ({word})."""
text = "a message: {word}"
said = f"{{LENGTH}} of a message: {word}"
'''
    assert count(python_prose(python)) == 5
    assert count(sql_prose(f"-- {word}\nSELECT 1 /* {word},\n{word} */")) == 3


def test_words_are_counted_across_lines_and_only_as_whole_words() -> None:
    assert count(python_prose("# it goes\n# on\n")) == 1
    assert count(sql_prose("-- it goes\n-- on\nSELECT 1")) == 1
    assert count("whole, untold, heart, hearing, who_waits, goes one further") == 0


def test_code_is_no_prose() -> None:
    assert count(python_prose('who = "who"\ntold(heard=f"{who}-hear")\n')) == 0
    assert count(sql_prose("SELECT who FROM told")) == 0


def test_a_file_with_too_many_fails_and_is_named() -> None:
    path = ROOT / "src/timeball/some_module.py"
    with pytest.raises(AssertionError, match=r"src/timeball/some_module\.py: 2 of 4"):
        _check({path: "nobody waits, nobody acts"}, 0.5)
    with pytest.raises(AssertionError, match="no prose"):
        _check({path: ""}, 0.5)


def count(prose: str) -> int:
    """The number of person words."""
    return len(PERSON.findall(prose))


def python_prose(source: str, parsed: ast.Module | None = None) -> str:
    """Comments, docstrings and strings with a space."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = (token.string.lstrip("#") for token in tokens if token.type == tokenize.COMMENT)
    return "\n".join([*comments, *_strings(parsed or ast.parse(source))])


def sql_prose(source: str) -> str:
    """Comments."""
    return "\n".join(line or block for line, block in SQL_COMMENT.findall(source))


def _strings(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Expr(ast.Constant(str(text))):
            yield text
        case ast.Constant(str(text)):
            yield from _with_a_space(text)
        case ast.JoinedStr(parts):
            yield from _with_a_space("".join(part.value if isinstance(part, ast.Constant) else "{}" for part in parts))
            for part in parts:
                if isinstance(part, ast.FormattedValue):
                    yield from _strings(part)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _strings(child)


def _with_a_space(text: str) -> Iterable[str]:
    return [text] if " " in text else []


def _check(prose: dict[Path, str], limit: float) -> None:
    words = sum(_words(text) for text in prose.values())
    found = {path: count(text) for path, text in prose.items()}
    assert words, "no prose was found"
    rate = sum(found.values()) * 1000 / words
    most = sorted(found, key=lambda path: found[path], reverse=True)[:MAX_FILES_NAMED]
    assert rate <= limit, "\n".join(
        [
            f"{sum(found.values())} person words in {words} words: {rate:.2f} per 1,000, the limit is {limit}; most in",
            *(
                f"{path.relative_to(ROOT).as_posix()}: {found[path]} of {_words(prose[path])}"
                for path in most
                if found[path]
            ),
        ]
    )


def _words(text: str) -> int:
    return len(WORD.findall(text))
