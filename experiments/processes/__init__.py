"""Process control: orders and answers between programs, ends, profiling."""
