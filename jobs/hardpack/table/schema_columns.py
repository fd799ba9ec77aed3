"""The columns of a schema, and the fields of structs in them, by name and by field id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, NestedField, StructType


@dataclass(frozen=True, slots=True)
class LogColumn:
    """A field that a role is mapped to: a column, or a field of structs in one."""

    field_id: int
    field_type: IcebergType
    path: tuple[str, ...]
    """The names of the structs around it, the outermost first, and then its own name."""
    required: bool = False
    """Whether every row has a value in it: the field and all structs around it are required."""
    has_default: bool = False
    """Whether rows of a file that lacks the column have a value in it all the same, as by an initial default."""

    @property
    def name(self) -> str:
        """The path as Iceberg writes it, with dots between."""
        return ".".join(self.path)


def _column(field: NestedField, around: tuple[str, ...], required: bool) -> LogColumn:
    """Returns a field as a column. `around` names the structs around it, `required` says whether all of them are."""
    has_default = field.initial_default is not None
    return LogColumn(field.field_id, field.field_type, (*around, field.name), required and field.required, has_default)


def _fields(fields: tuple[NestedField, ...], path: tuple[str, ...] = (), required: bool = True) -> Iterator[LogColumn]:
    """Yields all fields, those of structs too. Fields inside lists and maps are left out: a row may have any number."""
    for one in fields:
        column = _column(one, path, required)
        yield column
        if isinstance(one.field_type, StructType):
            yield from _fields(one.field_type.fields, column.path, column.required)


def find_column(schema: Schema, name: str) -> LogColumn | None:
    """Returns the column, or field of structs, with a name; None where there is none.

    A column whose own name has dots comes before a field in structs.

    Args:
        schema: the table's.
        name: with dots between the names of structs and fields.
    """
    return min(_called(name, schema.fields), key=lambda column: len(column.path), default=None)


def _called(
    name: str, fields: tuple[NestedField, ...], path: tuple[str, ...] = (), required: bool = True
) -> Iterator[LogColumn]:
    for one in fields:
        if one.name == name:
            yield _column(one, path, required)
        elif isinstance(one.field_type, StructType) and name.startswith(f"{one.name}."):
            rest = name.removeprefix(f"{one.name}.")
            yield from _called(rest, one.field_type.fields, (*path, one.name), required and one.required)


def column_by_id(schema: Schema, field_id: int) -> LogColumn | None:
    """Returns the column, or field of structs, with a field id; None where there is none.

    Args:
        schema: the table's.
        field_id: Iceberg's, which never changes its meaning.
    """
    return next((column for column in _fields(schema.fields) if column.field_id == field_id), None)


def separate_names(schema: Schema, names: str) -> list[str]:
    """Splits a setting that names columns with commas between. A column whose own name has commas stays whole.

    Args:
        schema: the table's.
        names: the setting's value.
    """
    return [names] if find_column(schema, names) else [name.strip() for name in names.split(",")]


def leaves(column: LogColumn) -> list[LogColumn]:
    """Returns the column itself or, of a struct, the fields in it that are no structs."""
    if not isinstance(column.field_type, StructType):
        return [column]
    inside = _fields(column.field_type.fields, column.path, column.required)
    return [field for field in inside if not isinstance(field.field_type, StructType)]


def existing_column(schema: Schema, name: str) -> LogColumn:
    """Returns the column, or field of structs, with a name.

    A column whose own name has dots comes before a field in structs.

    Args:
        schema: the table's.
        name: with dots between the names of structs and fields.

    Raises:
        ValueError: there is no such column or field.
    """
    if (column := find_column(schema, name)) is None:
        raise ValueError(f"there is no column {name!r}")
    return column
