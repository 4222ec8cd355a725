"""What is computed about kernels, layers, collectives and models, without a database."""
