"""The parts of a model by its configuration: sizes, parameters, bytes and FLOPs of each."""
