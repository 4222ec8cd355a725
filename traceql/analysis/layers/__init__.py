"""Attribution: the layer and the part of the model (role) that each kernel belongs to."""
