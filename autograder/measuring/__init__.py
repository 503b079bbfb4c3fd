"""The speed verdict, as the notebook sees it: what is sent to the measuring process, and what its answer means."""
