"""Values of a snapshot: blocks, rows, matrices, names, decision inputs, states."""
