"""Certificates for TLS off loopback, issued by the operator's own authorities."""
