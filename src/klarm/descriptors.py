"""Files that klarm writes to: regular ones at the very place, and never standard input or output.

A name in a run's folder may be somebody else's doing. A link there would have klarm write wherever
it leads, and a named pipe would hold the training until somebody reads.
"""

from __future__ import annotations

import errno
import os
import stat

_STANDARD = 2  # the last of stdin, stdout and stderr
_NOT_FOLLOWED = "it is a symbolic link, which klarm does not follow"
_NOT_REGULAR = "it is no regular file"


def open_own(path: str | os.PathLike[str], flags: int, mode: int = 0o666) -> int:
    """Open a file of klarm's, or raise OSError. Links are followed in its folders, not at its end.

    Who may read it is the umask's business.
    """
    # Neither is there on Windows. Without waiting: a pipe would keep us until it has a reader.
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        file = above_standard(os.open(path, flags, mode))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, _NOT_FOLLOWED, str(path)) from None
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, _NOT_REGULAR, str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, _NOT_REGULAR, str(path))
    return file


def above_standard(file: int) -> int:
    """Return a descriptor that is none of the first three, in place of one that is.

    Where a program has closed stderr, the next file would get its number, and all that is written
    to stderr.
    """
    if file > _STANDARD:
        return file
    try:
        import fcntl
    except ImportError:  # Windows
        return file
    try:
        return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _STANDARD + 1)
    finally:
        os.close(file)
