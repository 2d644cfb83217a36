"""Deployment cost: duration of the playbooks, and the deployed probe."""
