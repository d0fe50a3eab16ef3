"""What only a GPU shows: `make test-gpu`."""
