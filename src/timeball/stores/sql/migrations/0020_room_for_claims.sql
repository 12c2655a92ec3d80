-- Room in the indexes of live runs. A claim changes columns with indexes, so that each index gets a second entry for the
-- run. Runs are inserted in the order of these two indexes, so that every page of them is as full as it may be: without
-- room for the second entries, each page is searched for entries to delete and then split, during a claim.
-- works with: 5

-- only: postgres
ALTER INDEX runs_pkey SET (fillfactor = 50);

-- only: postgres
ALTER INDEX runs_of_job SET (fillfactor = 50);
