"""HTTP side of the service: connections, access, parameters and problems."""
