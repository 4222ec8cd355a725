"""Kinds of finding, one file each: what costs much in a run, in a sentence, with advice."""
