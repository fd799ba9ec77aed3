"""Thrift's compact protocol, in which Parquet writes footers and page indexes; no Arrow library hands these out.

See https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

Struct = dict[int, Any]
"""The fields of a Thrift struct by number. A struct inside it is such a mapping too, a list is a list, a text bytes."""
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST = range(1, 10)
STRUCT = 12
"""The protocol's codes of those types that Parquet uses."""


class Malformed(OSError):
    """Bytes that are not what Thrift's protocol or Parquet prescribes, as in a damaged file."""


class Reader:
    """Reads values from bytes, one after another."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def struct(self) -> Struct:
        """Returns the struct that begins at the current position.

        Raises:
            Malformed: no struct begins there.
        """
        try:
            return self._struct()
        except (IndexError, struct.error, RecursionError) as error:
            raise Malformed(f"no struct of Thrift's compact protocol at byte {self.at}") from error

    def _struct(self) -> Struct:
        return {number: kind == TRUE if kind in (TRUE, FALSE) else self.value(kind) for number, kind in self.fields()}

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yields number and type of each field of the struct at the current position.

        The caller reads or skips each field's value before it asks for the next field.
        """
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            yield number, head & 15

    def elements(self) -> tuple[int, int]:
        """Returns the number of elements of the list at the current position, and their type.

        The caller then reads or skips each element.
        """
        head = self._byte()
        return head >> 4 if head >> 4 < 15 else self._varint(), head & 15

    def skip_field(self, kind: int) -> None:
        """Skips the value of a field. A boolean field has none to skip, as its type is its value."""
        if kind not in (TRUE, FALSE):
            self.skip(kind)

    def skip(self, kind: int) -> None:
        """Skips one element of a list, or the value of a field that is not boolean."""
        if kind == STRUCT:
            for _, inner in self.fields():
                self.skip_field(inner)
        elif kind == BINARY:
            length = self._varint()
            self.at += length
        elif kind in (I16, I32, I64):
            while self._byte() & 128:
                pass
        elif kind == LIST:
            size, inner = self.elements()
            for _ in range(size):
                self.skip(inner)
        else:
            self.value(kind)

    def _byte(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        return byte

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _bytes(self, length: int) -> bytes:
        piece = self.data[self.at : self.at + length]
        if len(piece) < length:
            raise IndexError
        self.at += length
        return piece

    def value(self, kind: int) -> Any:
        """Returns an element of a list, or the value of a field that is not boolean, of the given type."""
        if kind in (TRUE, FALSE):
            # in a list a boolean takes a byte of its own
            return self._byte() == TRUE
        if kind in (I16, I32, I64):
            return self._zigzag()
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT:
            return self._struct()
        if kind == LIST:
            return self._list()
        if kind == BYTE:
            return self._byte()
        if kind == DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        raise Malformed(f"type {kind} is none of Thrift's compact protocol, at byte {self.at}")

    def _list(self) -> list[Any]:
        size, kind = self.elements()
        return [self.value(kind) for _ in range(size)]


def written(*fields: tuple[int, int, Any]) -> bytes:
    """Returns the bytes of a struct.

    Args:
        fields: number, type and value of each field, by rising number. The value of a `LIST` is the pair of its
            elements' type and its elements, that of a `STRUCT` its bytes.
    """
    out, last = bytearray(), 0
    for number, kind, value in fields:
        if not 0 < number - last < 16:
            raise ValueError("fields of a struct are given by rising number")
        out.append(number - last << 4 | kind)
        out += _encoded(kind, value)
        last = number
    out.append(0)
    return bytes(out)


def _encoded(kind: int, value: Any) -> bytes:
    if kind in (I32, I64):
        return _varint(value << 1 ^ value >> 63)
    if kind == BINARY:
        return _varint(len(value)) + bytes(value)
    if kind == STRUCT:
        return bytes(value)
    inner, values = value
    return _head(inner, len(values)) + b"".join(_encoded(inner, one) for one in values)


def _head(inner: int, size: int) -> bytes:
    return bytes([size << 4 | inner]) if size < 15 else bytes([15 << 4 | inner]) + _varint(size)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
