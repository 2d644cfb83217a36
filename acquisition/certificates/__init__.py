"""Certificates for TLS off loopback: authorities of the operator's making, and what they vouch for."""
