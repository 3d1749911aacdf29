"""Annotation codecs, one module per format: `encode` and `decode` raise only WireError. No vendor, no cluster."""
