"""Planning in SQL: fires become runs or ledger rows."""
