"""Looking at runs after the fact, with the code that watches them live."""
