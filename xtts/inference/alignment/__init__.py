"""Where in the text speech is: the path through attention, and the guard and word times by it."""
