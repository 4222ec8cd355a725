"""Protobuf's wire format in bulk, for what protobuf's own objects would be too slow for."""
