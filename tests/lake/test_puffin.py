"""Deletion vectors are what Iceberg's spec says; pyiceberg's own reader is the judge."""

from hardpack.lake.puffin import encode
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap


def test_pyiceberg_reads_every_vector_back():
    dead = {"file:/a.parquet": BitMap([0, 3, 70_000]), "file:/b.parquet": BitMap(range(1000))}
    content, vectors = encode(dead)
    read = PuffinFile(content).to_vector()
    assert {path: list(found.to_pylist()) for path, found in read.items()} == {p: list(b) for p, b in dead.items()}
    assert {path: v.cardinality for path, v in vectors.items()} == {"file:/a.parquet": 3, "file:/b.parquet": 1000}
