"""Damaged, missing or out of reach: only what cannot be decoded is damage; no JVM."""

import dataclasses
import errno
import random
from pathlib import Path

import pytest
from hardpack.errors import BadInput, Unavailable
from hardpack.files.data_files import DataFiles
from hardpack.files.puffin import read_vector, write_vectors
from hardpack.files.writer import write_files
from pyroaring import BitMap

from tests.files.test_data_files import refs
from tests.files.test_row_deletes import damages
from tests.topics import append, new_topic, row


def foreign(module, message="a request failed"):
    """An error of a library's own, as fsspec's file systems let through."""
    return type("ServiceRequestError", (Exception,), {"__module__": module})(message)


OUTAGES = [
    OSError("When reading for key 'a' in bucket 'b': AWS Error NETWORK_CONNECTION during GetObject: curlCode: 28"),
    OSError("When getting information: AWS Error SLOW_DOWN during HeadObject: Please reduce your request rate."),
    OSError("When reading: AWS Error UNKNOWN (HTTP status 503) during GetObject operation: No response body."),
    OSError("google::cloud::Status(UNAVAILABLE: Retry policy exhausted in ReadObject: error reading)"),
    OSError("GetProperties failed for 'https://a.example/b'. Azure Error: [ServerBusy] 503 The server is busy."),
    OSError(255, "HDFS read failed. Detail: [errno: 255] Unknown error 255"),
    OSError("HDFS ReadAt failed"),
    OSError("Read timed out"),
    OSError("The specified key could not be read: Connection reset by peer"),
    OSError(errno.EHOSTUNREACH, "No route to host"),
    OSError(errno.ENETUNREACH, "Network is unreachable"),
    ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
    BrokenPipeError(errno.EPIPE, "Broken pipe"),
    TimeoutError("timed out"),
    TimeoutError("timed out"),
    foreign("azure.core.exceptions"), foreign("aiohttp.client_exceptions"), foreign("gcsfs.retry"),
    foreign("botocore.exceptions"), foreign("google.api_core.exceptions"), foreign("urllib3.exceptions"),
]  # fmt: skip


class Flaky:
    """A FileIO whose reads fail so many times after the first bytes of a file."""

    def __init__(self, io, error, times):
        self.io, self.error, self.times = io, error, times

    def new_input(self, path):
        flaky, found = self, self.io.new_input(path)

        class Input:
            def open(self, seekable=True):
                return Stream(flaky, open(path.removeprefix("file://"), "rb"))

        assert found.location == path
        return Input()


class Stream:
    def __init__(self, flaky, stream):
        self.flaky, self.stream = flaky, stream

    def read(self, *size):
        if self.flaky.times > 0:
            self.flaky.times -= 1
            raise self.flaky.error
        return self.stream.read(*size)

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()


@pytest.fixture
def topic(catalog):
    table = new_topic(catalog)
    append(table, {0: [row(o, f"k{o}") for o in range(500)]})
    return table


def flaky(topic, error, times):
    files = DataFiles.of(topic)
    return dataclasses.replace(files, io=Flaky(files.io, error, times))


@pytest.mark.parametrize("error", OUTAGES, ids=lambda e: f"{type(e).__module__}.{type(e).__name__} {str(e)[:30]}")
@pytest.mark.parametrize("times", [1, 10**6], ids=["once", "for good"])
def test_an_outage_is_no_damage(topic, error, times):
    with pytest.raises(Unavailable, match=r"data file .* cannot be read now \(.*\); try again"):
        list(flaky(topic, error, times).read_whole(refs(topic)[0]))


@pytest.mark.parametrize("times", [1, 10**6], ids=["once", "for good"])
@pytest.mark.parametrize(
    "error", [OSError("error 4711 of a storage nobody knows"), OSError("Unexpected end of stream")]
)
def test_an_error_that_nobody_knows_is_put_to_the_test(topic, error, times):
    """Read again, the file's bytes cannot be had or they decode: either way the file is sound."""
    with pytest.raises(Unavailable, match="cannot be read now"):
        list(flaky(topic, error, times).read_whole(refs(topic)[0]))


def test_the_machines_troubles_are_not_the_files(topic):
    for number in (errno.EMFILE, errno.EACCES, errno.EIO):
        with pytest.raises(OSError, match="the machine") as told:
            list(flaky(topic, OSError(number, "the machine"), 1).read_whole(refs(topic)[0]))
        assert told.value.errno == number


def test_an_outage_of_a_vectors_file_is_no_damage(topic):
    files, (ref,) = DataFiles.of(topic), refs(topic)
    (delete,) = write_vectors(files, {ref.path: BitMap([1])}, {ref.path: ref})
    for error in [*OUTAGES, OSError("error 4711 of a storage nobody knows")]:
        with pytest.raises(Unavailable, match=r"the deletion vector of .* cannot be read now"):
            read_vector(flaky(topic, error, 1), delete)


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4", "uncompressed"])
def test_damage_is_damage_whatever_breaks(topic, codec):
    with topic.transaction() as change:
        change.set_properties({"write.parquet.compression-codec": codec})
    files, (ref,), rng = DataFiles.of(topic.refresh()), refs(topic), random.Random(codec)
    (entry,) = (file.entry for file in write_files(files, files.read_whole(ref), ref, 10**9))
    written = type(ref)(entry)
    path = Path(entry["file-path"].removeprefix("file://"))
    sound, told = path.read_bytes(), 0
    for _ in range(150):
        path.write_bytes(damages(rng, sound))
        try:
            list(files.read_whole(written))
        except BadInput:
            told += 1
    assert told > 75
