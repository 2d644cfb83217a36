"""Records of the filter: versions, smoothed values, inputs, recent values."""
