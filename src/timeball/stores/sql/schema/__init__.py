"""The tables that are written in bulk: a type per row, and the columns that follow from it."""
