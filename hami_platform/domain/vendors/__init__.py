"""One declaration per device vendor, and the code that all of them share.

`base` says what a declaration is, `registry` lists them, `parse` reads pods by them. Vendor names stand only in the
declarations.
"""
