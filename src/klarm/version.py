"""The version of klarm."""

__version__ = "0.2.0"
