"""REST: read what the console shows, set quotas, take agents' reports. Parses, calls a selector or service, encodes."""
