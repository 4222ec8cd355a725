"""Drills: thousands of damaged inputs, kills and attacks, each judged by what traceql did.

`python -m drills` runs them and prints a table; docs/reliability.md says what the columns mean.
"""
