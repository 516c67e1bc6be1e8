"""The calculator: the memory model as JavaScript, and the page that asks it.

The estimate is run on numbers that are not known yet. It then gives, for every phase, what it would have
computed as an expression of what the form asks for, and these expressions are written as JavaScript.
"""
