"""`pabi explore`: a page on this machine that shows what a run costs, live.

The page holds texts: what stands in its controls. The server reads them, asks the library in processes of
their own, and answers with numbers that the library has rounded. Nothing leaves the machine.
"""
