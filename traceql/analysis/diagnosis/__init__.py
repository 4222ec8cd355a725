"""The diagnosis: a catalogue of causes, the evidence on each, and what ending it would save."""
