"""What a model's configuration says about its parts: sizes, parameters, bytes and FLOPs of each."""
