"""How quick `klarm serve` is: `make bench-page`."""
