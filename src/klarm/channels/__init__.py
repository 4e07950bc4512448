"""Where people are told. The catalogue of channels."""
