"""Virtual machines: guests as described by qemu, and the resources they get."""
