"""What costs much in a run, in one sentence each: a file for each kind of finding."""
