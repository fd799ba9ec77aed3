"""Is a file damaged, missing, or only out of reach? What readers raise, as one sentence.

Storage and decoders raise the same kinds of errors, whose texts nobody promises. So what is not known as an outage is
put to the test: a file is damaged when its bytes can be read and cannot be decoded, twice.
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
"""Errors of their own they raise for the storage alone."""
NETWORK = {errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH}
"""Error numbers of the storage that Python has no class of its own for."""
DAMAGED = "restore it, or roll the table back to a snapshot without it. Nothing was changed."
DECODING = (OSError, UnicodeDecodeError)
"""What decoders raise beside Arrow's own errors; the second for names in a footer."""
PIECE = 8 * 1024 * 1024


def is_away(error: BaseException) -> bool:
    """Returns whether the storage did not answer, whatever the file is like."""
    if isinstance(error, ConnectionError | TimeoutError) or getattr(error, "errno", None) in NETWORK:
        return True
    return type(error).__module__.partition(".")[0] in LIBRARIES or (
        isinstance(error, OSError) and AWAY.search(str(error)) is not None
    )


@contextmanager
def readable(
    what: str, read: Callable[[], object] | None = None, decode: Callable[[], object] | None = None
) -> Iterator[None]:
    """Tell in a sentence what keeps a file from being read.

    Args:
        what: table and file, the beginning of the sentence.
        read: reads all bytes of the file once more.
        decode: decodes the file once more; without the two, it is only read and never told as damaged.

    Raises:
        BadInput: the file is gone or damaged.
        Unavailable: the storage does not answer.
    """
    import pyarrow as pa

    try:
        yield
    except (HardpackError, MemoryError):
        # also Arrow's lack of memory
        raise
    except FileNotFoundError:
        raise BadInput(f"{what} is missing; {DAMAGED}") from None
    except Exception as error:
        reason = str(error).partition("\n")[0]
        if not is_away(error):
            if not isinstance(error, (pa.ArrowException, *DECODING)) or getattr(error, "errno", None):
                # the machine's trouble, or a mistake of ours
                raise
            if _fails_again(read, decode):
                raise damaged(what, reason) from None
        raise Unavailable(f"{what} cannot be read now ({reason}); try again.") from None


def damaged(what: str, why: str) -> BadInput:
    """Returns the error of a file that cannot be decoded."""
    return BadInput(f"{what} is damaged ({why}); {DAMAGED}")


def _fails_again(read: Callable[[], object] | None, decode: Callable[[], object] | None) -> bool:
    """Returns whether a file cannot be decoded although its bytes can be read.

    Without a way to decode, the storage is to blame.
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
