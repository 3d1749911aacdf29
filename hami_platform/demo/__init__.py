"""The demonstration: the whole platform as processes of one machine, with a simulated cluster. It imports no app."""
