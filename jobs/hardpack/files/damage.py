"""Tells whether a file is damaged, missing or only out of reach, and turns readers' errors into one sentence.

Storage and decoders raise the same kinds of errors, and nobody promises their texts. So an error that is not known as
an outage is put to the test: a file is damaged when its bytes can be read and cannot be decoded, twice.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hardpack.errors import BadInput, HardpackError, Unavailable

AWAY = re.compile(
    r"AWS Error|google::cloud::Status|\bAzure|\bHDFS|\bhdfs[A-Z]|curl error|CURL error|[Tt]imed? ?out|TIMEOUT"
    r"|[Cc]onnection (was )?(re(set|fused)|aborted|closed|lost|timed)|[Nn]etwork (is )?unreachable|[Nn]ame resolution"
    r"|SlowDown|[Tt]hrottl|Service ?Unavailable|Bad Gateway|Gateway Time|Too Many Requests|SSL|TLS|[Bb]roken pipe"
)
"""What Arrow's file systems and those of fsspec say when the storage does not answer."""
LIBRARIES = {"adlfs", "aiohttp", "azure", "botocore", "fsspec", "gcsfs", "google", "requests", "s3fs", "urllib3"}
"""Libraries that raise errors of their own for the storage alone."""
NETWORK = {errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH}
"""Error numbers of an unreachable storage for which Python has no exception class."""
DAMAGED = "restore it, or roll the table back to a snapshot without it. Nothing was changed."
DECODING = (OSError, UnicodeDecodeError)
"""What decoders raise beside Arrow's own errors; `UnicodeDecodeError` for names in a footer."""
PIECE = 8 * 1024 * 1024


def is_away(error: BaseException) -> bool:
    """Returns whether an error says that the storage did not answer, which tells nothing of the file."""
    if isinstance(error, ConnectionError | TimeoutError) or getattr(error, "errno", None) in NETWORK:
        return True
    return type(error).__module__.partition(".")[0] in LIBRARIES or (
        isinstance(error, OSError) and AWAY.search(str(error)) is not None
    )


@contextmanager
def readable(
    what: str, read: Callable[[], object] | None = None, decode: Callable[[], object] | None = None
) -> Iterator[None]:
    """Turns an error of reading a file into a sentence that says what keeps the file from being read.

    Args:
        what: table and file, the beginning of the sentence.
        read: reads all bytes of the file once more.
        decode: decodes the file once more. Without `read` and `decode` the file never counts as damaged.

    Raises:
        BadInput: the file is gone or damaged.
        Unavailable: the storage does not answer.
    """
    import pyarrow as pa

    try:
        yield
    except (HardpackError, MemoryError):
        # Arrow's lack of memory is a MemoryError too, and says nothing of the file
        raise
    except FileNotFoundError:
        raise BadInput(f"{what} is missing; {DAMAGED}") from None
    except Exception as error:
        reason = str(error).partition("\n")[0]
        if not is_away(error):
            if not isinstance(error, (pa.ArrowException, *DECODING)) or getattr(error, "errno", None):
                # this is trouble of the machine, or a mistake in hardpack
                raise
            if _fails_again(read, decode):
                raise damaged(what, reason) from None
        raise Unavailable(f"{what} cannot be read now ({reason}); try again.") from None


def damaged(what: str, why: str) -> BadInput:
    """Returns the error of a file that cannot be decoded."""
    return BadInput(f"{what} is damaged ({why}); {DAMAGED}")


def _fails_again(read: Callable[[], object] | None, decode: Callable[[], object] | None) -> bool:
    """Returns whether a file cannot be decoded although its bytes can be read.

    Without a way to read and decode it, the answer is no: the storage is to blame.
    """
    import pyarrow as pa

    if read is None or decode is None:
        return False
    try:
        read()
    except Exception:
        return False
    try:
        decode()
    except (pa.ArrowException, *DECODING) as error:
        return not is_away(error)
    return False
