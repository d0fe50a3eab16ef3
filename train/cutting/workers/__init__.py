"""Where the steps of a cut are computed: in this process, or over Ray."""
