"""What detectors say, by name."""

from __future__ import annotations

from klarm.speech import Speech, learn, learn_all, speech_of


def test_the_last_one_of_a_name_counts() -> None:
    """A journal may have been written by another version of a detector."""
    assert speech_of("test_speech") is None
    learn("test_speech", {"warning": "Low."}, {"warning": "Look."})
    assert speech_of("test_speech") == Speech({"warning": "Low."}, {"warning": "Look."})
    learn_all({"test_speech": Speech({"warning": "Lower."}, {})})
    assert speech_of("test_speech") == Speech({"warning": "Lower."}, {})
