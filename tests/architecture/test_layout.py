"""Where things are: modules of a size that one can read, folders of a size that one can look through, and one place for
each thing. An exception stands here with its reason, and fails when it is needed no more."""

from pathlib import Path

from tests.architecture.source import ROOT, SRC, folders, only_listed

MAX_MODULE_LINES = 400
MAX_FOLDER_FILES = 15
"""Without `__init__.py`."""
UNIT = ROOT / "tests/unit"
STATEMENTS = SRC / "stores/sql/queries"

LONG_MODULES: dict[str, str] = {}
LARGE_FOLDERS: dict[str, str] = {}
SERIES = {"stores/sql/migrations": "one file per version of the schema, read in the order of their numbers"}
"""Folders that grow by one file at a time and that nobody has to look through."""
BESIDE_SRC = {
    "bench": "tests of the benchmarks, which are beside src",
    "scripts": "tests of scripts, which is beside src",
    "support": "tests of tests/support",
}
"""Folders of tests/unit that have no counterpart in src."""


def test_no_module_is_longer_than_400_lines() -> None:
    lengths = {path.relative_to(SRC).as_posix(): _lines(path) for path in SRC.rglob("*.py")}
    only_listed((path for path, lines in lengths.items() if lines > MAX_MODULE_LINES), LONG_MODULES)


def test_no_folder_has_more_than_15_files() -> None:
    for root, listed in ((SRC, LARGE_FOLDERS), (UNIT, {})):
        sizes = {
            folder: len([path for path in files if path.name != "__init__.py"])
            for folder, files in folders(root).items()
            if folder not in SERIES
        }
        only_listed((folder for folder, size in sizes.items() if size > MAX_FOLDER_FILES), listed)
    assert SERIES.keys() <= folders().keys()


def test_no_package_is_empty() -> None:
    """Unless it has only folders below."""
    for root in (SRC, UNIT):
        parents = {path.parent for path in root.rglob("__init__.py")}
        empty = [
            folder
            for folder, files in folders(root).items()
            if [path.name for path in files] == ["__init__.py"] and (root / folder) not in {p.parent for p in parents}
        ]
        assert empty == []


def test_a_file_of_statements_has_the_name_of_the_module_that_uses_it() -> None:
    files = [path.relative_to(STATEMENTS) for path in STATEMENTS.rglob("*.sql")]
    assert files
    assert [str(file) for file in files if not (SRC / "stores/sql" / file.with_suffix(".py")).is_file()] == []


def test_unit_tests_are_where_their_modules_are() -> None:
    missing = [
        folder
        for folder in folders(UNIT)
        if not (SRC / folder).is_dir() and not (SRC / folder).with_suffix(".py").is_file()
    ]
    only_listed(missing, BESIDE_SRC)


def _lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())
