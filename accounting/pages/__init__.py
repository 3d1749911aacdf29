"""The console's pages: read the request, call a selector, render. What changes goes through a service."""
