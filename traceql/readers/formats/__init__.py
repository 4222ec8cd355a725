"""One folder for each format of trace files, each with a `READER`."""
