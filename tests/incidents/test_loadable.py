"""Which checkpoints look complete."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

from cases import over
from klarm.incidents.loadable import problem_with


def safetensors(path: Path, size: int = 400, cut: int = 0) -> None:
    """Write one tensor of so many bytes, and cut the file short."""
    header = {
        "__metadata__": {"format": "pt"},
        "w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]},
    }
    head = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    content = struct.pack("<Q", len(head)) + head + b"\0" * size
    path.write_bytes(content[: len(content) - cut])


def test_a_whole_checkpoint_has_no_problem() -> None:
    """As a Hugging Face trainer writes it."""
    safetensors(Path("checkpoint-1/model.safetensors"))
    Path("checkpoint-1/trainer_state.json").write_text("{}")
    with zipfile.ZipFile("checkpoint-1/optimizer.pt", "w") as file:
        file.writestr("data.pkl", b"x" * 100)
    Path("checkpoint-1/notes.txt").touch()
    assert problem_with("checkpoint-1") == ""


@over("cut", [1, 399, 400, 450, 10_000])
def test_a_truncated_weights_file_is_detected(cut: int) -> None:
    """The disk was full, or the process was killed while it saved."""
    safetensors(Path("checkpoint-1/model.safetensors"), cut=cut)
    assert problem_with("checkpoint-1").startswith("model.safetensors has ")


def test_a_shard_that_is_missing_is_named() -> None:
    """The index lists every file that holds weights."""
    safetensors(Path("c/model-00001-of-00002.safetensors"))
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    Path("c/model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    assert problem_with("c") == "model-00002-of-00002.safetensors is missing"
    safetensors(Path("c/model-00002-of-00002.safetensors"))
    assert problem_with("c") == ""


def test_a_truncated_zip_file_is_detected() -> None:
    """PyTorch and Stable-Baselines3 write zip files."""
    with zipfile.ZipFile("model.zip", "w") as file:
        file.writestr("policy.pth", b"x" * 1000)
    assert problem_with("model.zip") == ""
    whole = Path("model.zip").read_bytes()
    Path("model.zip").write_bytes(whole[:500])
    assert problem_with("model.zip") == "model.zip ends too early"
    Path("model.zip").write_bytes(b"")
    assert problem_with("model.zip") == "model.zip is empty"


def test_a_path_that_cannot_be_checked_is_trusted() -> None:
    """Another machine's disk, a bucket, a format of the user's own, an old pickle."""
    Path("weights.bin").write_bytes(b"\x80\x02}q\x00.")
    Path("weights.xyz").write_bytes(b"anything")
    for path in ("s3://bucket/checkpoint-1", "/no/such/place/x", "weights.bin", "weights.xyz"):
        assert problem_with(path) == ""


def test_a_missing_or_empty_checkpoint_cannot_be_loaded() -> None:
    """A folder alone is made before anything is written into it."""
    Path("checkpoint-1").mkdir()
    assert problem_with("checkpoint-1") == "the folder is empty"
    assert problem_with("checkpoint-2") == "it does not exist"


def test_a_file_of_garbage_is_reported_without_an_error() -> None:
    """Whatever its bytes are."""
    null, empty = struct.pack("<Q", 4) + b"null", struct.pack("<Q", 2) + b"[]"
    for content in (b"", b"\xff" * 100, null, empty):
        Path("model.safetensors").write_bytes(content)
        assert problem_with("model.safetensors") == "model.safetensors has no valid header"
    Path("trainer_state.json").write_bytes(b'{"step": 7, "log_history": [')
    assert problem_with("trainer_state.json") == "trainer_state.json ends too early"
    for content in (b"[]", b'{"weight_map": 3}'):
        Path("model.safetensors.index.json").write_bytes(content)
        assert "lists no shards" in problem_with("model.safetensors.index.json")
    Path("model.safetensors.index.json").write_bytes(b"\xff")
    assert "is not valid JSON" in problem_with("model.safetensors.index.json")
