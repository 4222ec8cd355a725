"""Classification of kernels: rules decide the category of each kernel by its name."""
