"""Readers: each turns trace files of one format into the same tables.

Every subpackage is a reader and defines `READER`: `registry` finds it, `contract` says what it
declares, and `tables` says what it delivers. Readers share the other modules of this folder.
"""
