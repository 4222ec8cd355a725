"""The words of Ascend's profilers (torch_npu, msprof), in both of their exports: text and db."""
