"""The console in a real browser, served by the real listener. Runs with `make browser`."""
