"""The pure domain: values and decisions. No Django, no clock, no I/O, no threads, no logging."""
