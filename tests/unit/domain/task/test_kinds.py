"""The table of task kinds agrees with the structs."""

from typing import get_args

from timeball.domain.task.kinds import KINDS, MAIN_FIELDS, OFFERED
from timeball.domain.task.task import Task


def test_every_kind_is_one_struct_of_the_union() -> None:
    assert tuple(struct.__struct_config__.tag for struct in get_args(Task)) == KINDS


def test_the_main_field_of_a_kind_is_the_first_field_of_its_struct() -> None:
    for struct in get_args(Task):
        assert struct.__struct_encode_fields__[0] == MAIN_FIELDS[struct.__struct_config__.tag]


def test_a_command_line_offers_every_kind_and_commands_first() -> None:
    assert OFFERED[0].name == "shell"
    assert {kind.name for kind in OFFERED} == set(KINDS)
