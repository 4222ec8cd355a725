"""Finds the layer and the role of each kernel from the order of kernels, in these stages.

kernel_text: the kernels of a stream become a text, one letter per kind of kernel.
forward_passes: anchors, one per layer, divide the text into passes and layers.
boundary_evidence, layer_boundaries: where a layer ends and the next one begins.
layer_numbers: the number of each layer on its rank, and which layers of the model a rank holds.
roles: the role of each kernel in its layer, by the model's family.
attribution: all of that for the streams of one rank.
"""
