"""Normalising: what others wrote, in the form that partition and schedules know; one rewrite a file.

`adopt` makes a payload of a file: what is computed stays, its oracle is asked of the result. `simplify` is what
`partition` begins with: the oracle stays with the text before it.
"""
