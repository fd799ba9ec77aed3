"""Writes new data files: gathers batches into row groups and row groups into files, as the table's properties say."""

from __future__ import annotations

import math
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.io.pyarrow import parquet_path_to_id_mapping
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.types import BooleanType

from hardpack.errors import BadInput
from hardpack.files.column_metrics import NONE, ColumnMetrics, pairs
from hardpack.files.content_file import ContentFile, listed_file
from hardpack.files.data_files import leaf
from hardpack.files.key_hash import longs
from hardpack.files.projection import project
from hardpack.table.numeric_properties import whole_number
from hardpack.table.schema_columns import column_by_id

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.partitioning import PartitionSpec

    from hardpack.files.data_files import DataFiles

PARQUET = "write.parquet."
CODECS = {"zstd", "snappy", "gzip", "brotli", "lz4", "uncompressed"}
LEVELLED = {"zstd", "gzip", "brotli"}
"""Codecs that have levels. For other codecs the level's property is ignored, as parquet-java does."""
FLUSH_BYTES = 128 * 1024 * 1024
"""Arrow bytes after which a row group is written, whatever larger size the table asks for: a task has to hold it."""
BLOOM_BYTES = 1024 * 1024
RISING = "hardpack.offsets-rising"
"""Key in a Parquet file's metadata, set when no row has a smaller offset than the row before it."""


def write_files(
    files: DataFiles, rows: Iterable[pa.RecordBatch], like: ContentFile, target_bytes: int
) -> list[ContentFile]:
    """Writes rows to new data files, which no snapshot knows of, in the Iceberg partition of another file.

    Args:
        files: the table's.
        rows: batches with the columns of `files.written_schema`.
        like: a file of the same partition and spec.
        target_bytes: size at which a file ends and the next begins.
    """
    writing = _Writing(files, like, target_bytes)
    try:
        for batch in rows:
            writing.add(batch)
        writing.end()
    except BaseException:
        writing.discard()
        raise
    return writing.done


class _Writing:
    def __init__(self, files: DataFiles, like: ContentFile, target_bytes: int) -> None:
        self.files, self.like, self.target = files, like, target_bytes
        self.model = FileFormatFactory.get(FileFormat.PARQUET)
        self.schema = sanitize_column_names(files.written_schema)
        columns = files.log_columns
        rising = (columns.offset.field_id, columns.timestamp.field_id) if columns else ()
        self.options = parquet_options(files.name, files.written_schema, files.properties, rising)
        self.offset = column_by_id(self.schema, columns.offset.field_id) if columns else None
        self.last_offset: int | None = None
        self.group_rows, group_bytes = group_limits(files.name, files.properties)
        self.flush_bytes = min(group_bytes, max(target_bytes // 4, 64 * 1024))
        self.waiting: list[pa.RecordBatch] = []
        self.bytes = self.written = 0
        self.output: Any = None
        self.stream: Any = None
        self.writer: Any = None
        self.metrics: ColumnMetrics | None = None
        self.done: list[ContentFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        step = max(1000, int(len(batch) * self.flush_bytes / max(batch.nbytes, 1)))
        for at in range(0, len(batch), step):
            part = batch.slice(at, step)
            self.waiting.append(part)
            self.bytes += part.nbytes
            if self.bytes >= self.flush_bytes:
                self._flush()

    def end(self) -> None:
        self._flush()
        self._close()

    def discard(self) -> None:
        for open_end in (self.writer, self.stream):
            with suppress(Exception):
                # else an object store would complete the file once the stream is collected as garbage
                open_end.close()
        begun = [self.output.location] if self.output is not None else []
        self.files.discard([*(file.path for file in self.done), *begun])

    def _flush(self) -> None:
        import pyarrow as pa

        if not self.waiting:
            return
        ready = pa.Table.from_batches(
            project(b, self.files.written_schema, self.schema, include_field_ids=True, format_model=self.model)
            for b in self.waiting
        ).combine_chunks()
        if self.writer is None:
            self._open(ready.schema)
        self.writer.write(ready, row_group_size=self.group_rows)
        for batch in ready.to_batches():
            # `_open` has set the metrics
            self.metrics.add(batch)  # type: ignore[union-attr]
            self._follow(batch)
        self.waiting, self.bytes = [], 0
        end = self.stream.tell()
        self.files.throttle.spend(end - self.written)
        self.written = end
        if end >= self.target:
            self._close()

    def _follow(self, batch: pa.RecordBatch) -> None:
        """Sets `last_offset` to None once a row has a smaller offset than the row before it."""
        if self.offset and self.last_offset is not None:
            offsets = longs(leaf(batch, self.offset).fill_null(-1))
            in_order = offsets[0] >= self.last_offset and bool((offsets[1:] >= offsets[:-1]).all())
            self.last_offset = int(offsets[-1]) if in_order else None

    def _open(self, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        spec = self.files.specs[self.like.spec_id]
        folder: Any = SimpleNamespace(to_path=lambda: self._partition_path(spec))
        name = f"hardpack-{uuid.uuid4()}.{self.model.file_extension()}"
        self.metrics = ColumnMetrics(self.files.schema, self.files.modes)
        self.output = self.files.io.new_output(self.files.new_location(name, folder if spec.fields else None))
        self.stream = self.output.create(overwrite=True)
        self.writer = pq.ParquetWriter(self.stream, schema, **self.options)
        self.last_offset = -1

    def _partition_path(self, spec: PartitionSpec) -> str:
        from urllib.parse import quote_plus

        values = self.like.partition
        named = zip(spec.fields, values, strict=True)
        return "/".join(f"{quote_plus(f.name)}={quote_plus(str(v), safe='')}" for f, v in named)

    def _close(self) -> None:
        if self.writer is None:
            return
        if self.offset and self.last_offset is not None:
            self.writer.add_key_value_metadata({RISING: "true"})
        self.writer.close()
        # the stream knows the size; asking the storage for it would take one more answer
        size = self.stream.tell()
        self.stream.close()
        self.done.append(self._written(self.writer.writer.metadata, size))
        self.writer = self.stream = self.output = None
        self.written = 0

    def _written(self, footer: Any, size: int) -> ContentFile:
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        chunks = [group.column(number) for group in groups for number in range(footer.num_columns)]
        numbers, sizes = parquet_path_to_id_mapping(self.schema), dict[int, int]()
        for chunk in chunks:
            number = numbers[chunk.path_in_schema]
            if self.files.modes.get(number, NONE) > NONE:
                sizes[number] = sizes.get(number, 0) + chunk.total_compressed_size
        order = {"sort-order-id": self.files.sort_order} if self.files.sort_order else {}
        return listed_file(
            self.output.location, "parquet", self.like.spec_id, self.like.partition, size, footer.num_rows,
            **{"column-sizes": pairs(sizes), "split-offsets": sorted(_start(group.column(0)) for group in groups)},
            # `_open` has set the metrics of the file that ends here
            **self.metrics.json(), **order,  # type: ignore[union-attr]
        )  # fmt: skip


def _start(chunk: Any) -> int:
    """Returns where a column chunk, and so its row group, begins in the file."""
    first, dictionary = int(chunk.data_page_offset), chunk.dictionary_page_offset
    return first if dictionary is None else min(first, int(dictionary))


def group_limits(name: str, properties: Mapping[str, str]) -> tuple[int, int]:
    """Returns the most rows of a row group, and the Arrow bytes after which a row group is written.

    Args:
        name: the table's.
        properties: the table's.

    Raises:
        BadInput: a property is no number above 0.
    """
    size = _whole(name, properties, "row-group-size-bytes", FLUSH_BYTES)
    return _whole(name, properties, "row-group-limit", 1024 * 1024), min(size, FLUSH_BYTES)


def parquet_options(
    name: str, schema: Schema, properties: Mapping[str, str], rising: Collection[int] = ()
) -> dict[str, Any]:
    """Returns the options of Arrow's Parquet writer that the table's properties stand for.

    Args:
        name: the table's.
        schema: the table's.
        properties: the table's.
        rising: field ids of columns in which a value does not come back. They get no dictionary: it would be larger
            than the values, and a reader of one page would have to read it too.

    Raises:
        BadInput: a property has a value that Arrow's writer cannot honour.
    """
    codec = properties.get(f"{PARQUET}compression-codec", "zstd").lower()
    if codec not in CODECS:
        raise BadInput(
            f"{name}: {PARQUET}compression-codec is {codec!r}, expected one of {', '.join(sorted(CODECS))}; change it."
        )
    page_rows = _whole(name, properties, "page-row-limit", 20_000)
    numbers = parquet_path_to_id_mapping(sanitize_column_names(schema))
    return {
        "use_dictionary": [path for path, number in numbers.items() if number not in rising],
        "compression": "none" if codec == "uncompressed" else codec,
        "compression_level": _level(name, codec, properties.get(f"{PARQUET}compression-level")),
        "data_page_size": _whole(name, properties, "page-size-bytes", 1024 * 1024),
        "dictionary_pagesize_limit": _whole(name, properties, "dict-size-bytes", 2 * 1024 * 1024),
        "write_batch_size": page_rows,
        "max_rows_per_page": page_rows,
        "store_decimal_as_integer": True,
        # as parquet-java does, which has no property for either
        "write_page_checksum": True,
        "write_page_index": True,
        # older versions of pyarrow do not know this option
        **({"bloom_filter_options": blooms} if (blooms := _bloom_filters(name, schema, properties)) else {}),
    }


def _level(name: str, codec: str, text: str | None) -> int | None:
    from pyarrow import Codec

    if text is None or codec not in LEVELLED:
        return None
    least, most = Codec.minimum_compression_level(codec), Codec.maximum_compression_level(codec)
    try:
        if least <= int(text) <= most:
            return int(text)
    except ValueError:
        pass
    raise BadInput(
        f"{name}: {PARQUET}compression-level is {text!r}, expected a whole number from {least} to {most}; change it."
    )


def _bloom_filters(name: str, schema: Schema, properties: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    most, prefix = _whole(name, properties, "bloom-filter-max-bytes", BLOOM_BYTES), f"{PARQUET}bloom-filter-"
    paths = {number: path for path, number in parquet_path_to_id_mapping(sanitize_column_names(schema)).items()}
    filters = {}
    for key, value in properties.items():
        column = key.removeprefix(f"{prefix}enabled.column.")
        if column == key or value.lower() != "true":
            continue
        number = next((i for i in paths if schema.find_column_name(i) == column), None)
        if number is None or isinstance(schema.find_type(number), BooleanType):
            # Iceberg too ignores a column that no longer exists or has only two values
            continue
        chance = _fraction(name, properties, f"{prefix}fpp.column.{column}")
        # Arrow takes the next power of two, and folds a filter that turns out too large
        fits = max(1, int(-(1 << most.bit_length() - 1) * math.log(1 - chance ** (1 / 8))))
        distinct = min(fits, _whole(name, properties, f"bloom-filter-ndv.column.{column}", fits))
        filters[paths[number]] = {"ndv": distinct, "fpp": chance}
    return filters


def _whole(name: str, properties: Mapping[str, str], key: str, default: int) -> int:
    return whole_number(name, properties, PARQUET + key, default, least=1)


def _fraction(name: str, properties: Mapping[str, str], key: str) -> float:
    text = properties.get(key, "0.01")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise BadInput(f"{name}: {key} is {text!r}, expected a number between 0 and 1; change it.")
    return value
