"""Which layer and which part of the model each kernel belongs to, and how that is known."""
