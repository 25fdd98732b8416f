"""What specdeck costs, beside its limits and its peers: `make bench`, or `python -m benchmarks [--quick] [--json]`."""
