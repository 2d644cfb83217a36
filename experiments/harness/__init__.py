"""What benchmarks share: the pipeline under test, one measured run of it, the balance of its books, the outcome."""
