"""Long run: hosts that come and go, recorded series, flat memory."""
