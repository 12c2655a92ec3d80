-- An index for counting the verdicts of a job: fires that were on time are counted in the index of all its runs, the
-- others here.
-- works with: 5

CREATE INDEX history_notable_of_job ON history (job_id, fire_time, id) WHERE verdict <> 'on_time' OR origin <> 'schedule';
