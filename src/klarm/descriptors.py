"""Opens the files that klarm writes to: regular files only, and never standard input or output.

Somebody else may have created a file in a run's folder. With a link there, klarm would write to
wherever it leads, and a named pipe would block training until somebody reads it.
"""

from __future__ import annotations

import errno
import os
import stat

_STANDARD = 2  # the last of stdin, stdout and stderr
_NOT_FOLLOWED = "it is a symbolic link, which klarm does not follow"
_NOT_REGULAR = "it is not a regular file"


def open_own(path: str | os.PathLike[str], flags: int, mode: int = 0o666) -> int:
    """Open a file for klarm, or raise OSError. Its folders may be links, the file itself may not.

    The umask decides who may read it.
    """
    # Windows has neither flag. Opening must not block: a pipe would wait for a reader.
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
    """Return a descriptor that is not one of the first three, by duplicating it if necessary.

    If a program has closed stderr, the next file that is opened gets its number, and everything
    that is written to stderr would end up in that file.
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
