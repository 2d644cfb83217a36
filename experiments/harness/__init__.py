"""What benchmarks share: the pipeline under test, its processes, the balance of its books, usage, the outcome."""
