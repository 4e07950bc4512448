"""The version of klarm."""

__version__ = "0.1.0"
