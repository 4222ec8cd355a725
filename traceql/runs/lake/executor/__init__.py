"""Runs tasks somewhere: in processes of this machine, or on the machines of a Ray cluster."""
