"""Other servers' request shapes, one module for each; what they ask for is spoken as any speech."""
