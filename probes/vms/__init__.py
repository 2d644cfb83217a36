"""Virtual machines: what qemu says of a guest, and what the guest gets."""
