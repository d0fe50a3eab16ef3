"""CPUs and GPUs: which one is used, what state it is in, how busy it is."""
