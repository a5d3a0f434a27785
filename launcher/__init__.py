"""Parts of the program `maglev`."""
