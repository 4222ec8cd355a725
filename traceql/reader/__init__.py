"""Trace files in, tables out."""
