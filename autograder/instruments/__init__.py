"""What one looks with: traces, jaxprs, HLO, times and their pictures. Useful without the course."""
