"""Decides whether a change may be merged: criteria, what the runs allow to say of each, reports."""
