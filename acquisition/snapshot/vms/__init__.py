"""Places of VMs: which processes report a VM, and which host it is on."""
