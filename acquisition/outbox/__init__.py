"""The sending side: numbered frames in a ring, sent in order, and the go-back rule. Light: the probe imports it."""
