"""A rule set is used again as long as the folders that it was made from are the same."""

from pathlib import Path

from timeball.executors.sandbox.job_domain import is_current


def test_a_folder_that_was_missing_is_the_same_until_it_exists(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    assert is_current([(str(folder), 0, 0, 0)])
    folder.mkdir()
    assert not is_current([(str(folder), 0, 0, 0)])
    found = folder.stat()
    seen = [(str(folder), found.st_dev, found.st_ino, found.st_mtime_ns)]
    assert is_current(seen)
    folder.rmdir()
    assert not is_current(seen)
