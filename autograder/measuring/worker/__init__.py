"""The measuring process: it loads two functions, compares their results and times them against each other."""
