"""The words for events of Nsight Systems, whose exports have tables in place of categories."""
