"""What travels between the notebook and the measuring process, and how it is written down."""
