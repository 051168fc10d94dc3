"""Runs plays for Steersman's Ansible operators: cold, or in children of a process that has Ansible imported already."""
