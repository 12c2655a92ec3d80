"""Workflows in a world of their own, the theme `workflows`.

Other worlds have none, and their servers do not look for any: so their traces stay what they were.
"""

THEME = "workflows"
