"""Data files read and written with Arrow, through a `DataFiles`, which is pickled into Spark's tasks.

Only `projection` and `writer` use pyiceberg's Arrow code for data files. Columns are found by field id, so that files
older than a change of schema read as Iceberg wants it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from hardpack.errors import BadInput
from hardpack.files.column_metrics import metrics_modes, sensed
from hardpack.files.content_file import ContentFile
from hardpack.files.damage import PIECE, readable
from hardpack.files.throttle import Throttle
from hardpack.table.columns import LogColumns, by_offset, table_name
from hardpack.table.footers import name_mapping
from hardpack.table.read_ahead import AHEAD_BYTES, one_ahead
from hardpack.table.readable import ROW_LINEAGE
from hardpack.table.schema_columns import LogColumn
from hardpack.table.vended import renewed

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.table.name_mapping import NameMapping

    from hardpack.rules.settings import Settings

log = logging.getLogger(__name__)

ROW_ID = NestedField(2147483540, ROW_LINEAGE[0], LongType())
LAST_UPDATED = NestedField(2147483539, ROW_LINEAGE[1], LongType())
"""Row lineage of format v3, with the field ids that the spec reserves."""
BATCH_ROWS = 128 * 1024
PROVIDER = "write.py-location-provider.impl"
"""Table property that makes pyiceberg import a class, which whoever may set the table's properties chooses."""


@dataclass(frozen=True)
class DataFiles:
    """Reads and writes one table's data files, wherever it is unpickled."""

    name: str
    """The table's name."""
    io: FileIO
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    names: NameMapping | None
    properties: Mapping[str, str]
    location: str
    format_version: Literal[1, 2, 3]
    modes: Mapping[int, int]
    """Metrics mode of each column by field id, see `hardpack.files.column_metrics`."""
    log_columns: LogColumns | None = None
    """The topic's columns by role, None where its settings are not known."""
    sort_order: int = 0
    """Id of the table's sort order when rows by rising offset satisfy it, else 0."""
    rate: float = sys.float_info.max
    """Bytes per second that one task may read and write."""
    threads: int = sys.maxsize
    """Tasks that may read and write at once."""

    @classmethod
    def of(
        cls,
        table: Table,
        rate: float = sys.float_info.max,
        threads: int = sys.maxsize,
        settings: Settings | None = None,
    ) -> DataFiles:
        """Makes the reader and writer of a loaded table.

        With its settings, new files have the metrics that planning needs.
        """
        meta, schema, order = table.metadata, table.schema(), table.sort_order()
        columns = LogColumns.of(schema, settings) if settings else None
        least = sensed(columns) if columns else {}
        by_order = order.order_id if settings and by_offset(table, settings) else 0
        return cls(
            table_name(table), renewed(table), schema, table.specs(), name_mapping(table), meta.properties,
            meta.location, meta.format_version, metrics_modes(schema, meta.properties, order, least), columns, by_order,
            rate, threads,
        )  # fmt: skip

    @cached_property
    def throttle(self) -> Throttle:
        """The throttle of the task that holds this copy."""
        return Throttle(self.rate)

    @cached_property
    def written_schema(self) -> Schema:
        """The schema of files written here: on format v3 with the lineage columns."""
        if self.format_version < 3:
            return self.schema
        return Schema(*self.schema.fields, ROW_ID, LAST_UPDATED, schema_id=self.schema.schema_id)

    @property
    def merge_on_read(self) -> bool:
        """Whether dead rows may stay in their files under row-level deletes, as far as the table says."""
        return self.format_version >= 2 and self.properties.get("write.delete.mode") == "merge-on-read"

    def read(self, file: ContentFile, columns: Sequence[LogColumn | None]) -> Iterator[pa.RecordBatch]:
        """Begins to read some columns of all rows of a file, deleted ones included, in file order, batch by batch.

        Args:
            file: one of the table's.
            columns: those to read, which the batches have under their full names; a None is passed over.
        """
        import pyarrow as pa

        read = {column.name: column for column in columns if column}
        batches = self.rows(file, self.schema.select(*read))
        return (
            pa.RecordBatch.from_arrays([leaf(batch, c) for c in read.values()], names=list(read)) for batch in batches
        )

    def read_whole(self, file: ContentFile) -> Iterator[pa.RecordBatch]:
        """Begins to read all columns of all rows, with each row's lineage where the format has it."""
        if self.format_version < 3:
            return self.rows(file, self.schema)
        return _with_lineage(file, self.rows(file, self.written_schema))

    def rows(
        self,
        file: ContentFile,
        projected: Schema,
        groups: Sequence[int] | None = None,
        use_threads: bool = False,
        footer: pq.FileMetaData | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Begins to read some columns of all rows, or of those in some row groups, deleted ones included.

        Args:
            file: one of the table's.
            projected: the columns, as the table's schema has them.
            groups: numbers of the row groups, None for all.
            use_threads: whether columns are decoded side by side; Spark's tasks have a core each.
            footer: the file's footer if it was read before; None to read it.
        """
        batches = partial(self._batches, file, projected, groups, use_threads, footer)
        return self._throttled(file, projected, one_ahead(self._sound(file, batches)))

    def _throttled(
        self, file: ContentFile, projected: Schema, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        size = file.column_bytes(projected.field_ids)
        for batch in batches:
            self.throttle.spend(size * len(batch) / file.rows)
            yield batch

    def _batches(
        self,
        file: ContentFile,
        projected: Schema,
        groups: Sequence[int] | None,
        use_threads: bool,
        footer: pq.FileMetaData | None,
    ) -> Iterator[pa.RecordBatch]:
        """Yields the file's batches, row group after row group, with columns mapped as pyiceberg maps them.

        pyiceberg's own reader is not used, as it decodes a gigabyte and more ahead.
        """
        import pyarrow.parquet as pq

        from hardpack.files.projection import FileColumns, fitting

        self.expect_parquet(file)
        spec = self.specs.get(file.spec_id)
        with self.io.new_input(file.path).open() as stream:
            # page checksums: a damaged page must not be written anew; extension types: pyiceberg knows none, such as
            # that of JSON; INT96: only 584 years fit into nanoseconds, and a time that does not fit changes
            parquet = pq.ParquetFile(
                stream, metadata=footer, pre_buffer=True, page_checksum_verification=True,
                arrow_extensions_enabled=False, coerce_int96_timestamp_unit="us",
            )  # fmt: skip
            with fitting(self.name, file.path):
                columns = FileColumns(
                    parquet.schema_arrow, projected, self.names, self.format_version, spec, file.partition
                )
            for group in range(parquet.num_row_groups) if groups is None else groups:
                for batch in parquet.iter_batches(BATCH_ROWS, [group], columns.names, use_threads=use_threads):
                    with fitting(self.name, file.path):
                        mapped = columns.mapped(batch)
                    yield mapped

    def expect_parquet(self, file: ContentFile) -> None:
        """Checks that a file is a Parquet file, the one format of data files that is read here.

        Raises:
            BadInput: it has another format.
        """
        if file.format != "parquet":
            raise BadInput(
                f"{self.name}: data file {file.path} is {file.format}, expected parquet; rewrite it "
                "(write.format.default, rewrite_data_files)."
            )

    def _sound(self, file: ContentFile, batches: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Yields the batches of a file, and turns an error of reading them into a sentence.

        Raises:
            BadInput: the file is gone or damaged.
            Unavailable: the storage does not answer.
        """

        def decode() -> None:
            for _ in batches():
                pass

        with readable(f"{self.name}: data file {file.path}", lambda: self.read_through(file.path), decode):
            yield from batches()

    def read_through(self, path: str) -> None:
        """Reads all bytes of a file and keeps none."""
        with self.io.new_input(path).open() as stream:
            while stream.read(PIECE):
                pass

    def new_location(self, name: str, folder: Any = None) -> str:
        """Returns the location of a new file, as the table's properties have it.

        The property that names a class to import is ignored, so that no property chooses what code runs.
        """
        from pyiceberg.table.locations import load_location_provider

        plain = {key: value for key, value in self.properties.items() if key != PROVIDER}
        return load_location_provider(self.location, plain).new_data_location(name, folder)

    @contextmanager
    def created(self, location: str) -> Iterator[Any]:
        """Opens the stream of a new file, which is deleted again when writing fails."""
        try:
            with self.io.new_output(location).create() as stream:
                yield stream
        except BaseException:
            self.discard([location])
            raise

    def discard(self, paths: Iterable[str]) -> None:
        """Deletes files that were written but not committed; what cannot be deleted is left to orphan removal."""
        for path in set(paths):
            try:
                self.io.delete(path)
            except Exception as error:  # whatever it is, it must not hide why the file is deleted
                log.warning("an uncommitted file of %s stays behind: %s", self.location, type(error).__name__)


def ahead_bytes(file: ContentFile) -> int:
    """Returns for how many bytes a file counts among those that are read ahead, each of which holds its first batch."""
    return max(file.bytes, file.rows * AHEAD_BYTES // BATCH_ROWS)


def leaf(batch: pa.RecordBatch, column: LogColumn) -> pa.Array:
    """Returns the values of a column, or of a field inside structs, which is null where a struct around it is null.

    Args:
        batch: has the column, or the outermost struct around the field.
        column: of the same schema as the batch.
    """
    array = batch.column(column.path[0])
    for name in column.path[1:]:
        array = array.flatten()[array.type.get_field_index(name)]
    return array


def _with_lineage(file: ContentFile, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    first, at = file.first_row_id, 0
    for batch in batches:
        if first is not None:
            own = pa.array(range(first + at, first + at + len(batch)), pa.int64())
            ids = pc.coalesce(batch[ROW_ID.name], own)
            seen = pc.coalesce(batch[LAST_UPDATED.name], pa.scalar(file.data_sequence_number, pa.int64()))
            batch = batch.set_column(batch.num_columns - 2, ROW_ID.name, ids)
            batch = batch.set_column(batch.num_columns - 1, LAST_UPDATED.name, seen)
        at += len(batch)
        yield batch
