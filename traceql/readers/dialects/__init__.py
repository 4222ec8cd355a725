"""Dialects: the words that a profiler uses for its events, one folder per profiler.

A reader names the dialect of its events (`traceql.readers.contract.Reader.dialect`). Readers keep a
file's words as they are; a dialect says what they mean.
"""
