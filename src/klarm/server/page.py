"""The built page: read once and served from memory, so that no path can reach other files."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

FOLDER = Path(__file__).parent / "page"
_INDEX = "/index.html"
_MIN_COMPRESSED = 1024
# Vite puts a hash of the content into these names.
_ASSETS = "/assets/"
# For a checkout, an installation from one, and a package that was built without the page.
HOW_TO_GET_IT = (
    "In a checkout of klarm, run `make page`. If you installed klarm from it by `pip install .`, "
    "install it again afterwards: `pip install '.[server]'`. Released packages contain the page: "
    "`pip install --force-reinstall 'klarm[server]'`."
)
_AS_HTML = re.sub("`(.*?)`", r"<code>\1</code>", HOW_TO_GET_IT)
_WITHOUT_PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>klarm</title></head><body>
<h1>klarm serve is running, but its page is not built</h1>
<p>{_AS_HTML} Then start <code>klarm serve</code> again.</p>
<p>The API works without it: <a href="/api/v1/runs">all runs</a>.</p>
</body></html>
"""


class _File(NamedTuple):
    kind: str
    content: bytes
    compressed: bytes | None
    tag: str


class Page:
    """The files of the page by their path."""

    def __init__(self, folder: Path = FOLDER) -> None:
        """Read all files; there may be none."""
        self._files = {
            f"/{path.relative_to(folder).as_posix()}": _read(path)
            for path in sorted(folder.rglob("*") if folder.is_dir() else ())
            if path.is_file()
        }

    @property
    def is_built(self) -> bool:
        """Whether the page was built."""
        return _INDEX in self._files

    @property
    def missing(self) -> str:
        """What to do if the page was not built; empty if it was."""
        return "" if self.is_built else f"The page is not built. {HOW_TO_GET_IT}"

    async def answer(self, request: Request) -> Response:
        """Return a file, or the page for any other path, or how to build the page."""
        file = self._files.get(request.url.path) or self._files.get(_INDEX)
        if file is None:
            return HTMLResponse(_WITHOUT_PAGE)
        is_immutable = request.url.path.startswith(_ASSETS) and request.url.path in self._files
        headers = {
            "Cache-Control": "public, max-age=31536000, immutable" if is_immutable else "no-cache",
            "ETag": file.tag,
            "Vary": "Accept-Encoding",
        }
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        if file.compressed and "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(file.compressed, headers=headers, media_type=file.kind)
        return Response(file.content, headers=headers, media_type=file.kind)


def _read(path: Path) -> _File:
    content = path.read_bytes()
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if path.suffix == ".js":  # on Windows, the registry may say anything
        kind = "text/javascript"
    is_text = kind.startswith("text/") or kind.endswith(("json", "xml"))
    compressed = gzip.compress(content) if is_text and len(content) >= _MIN_COMPRESSED else None
    return _File(kind, content, compressed, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
