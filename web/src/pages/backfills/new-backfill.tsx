import { useState } from 'react'
import { JobFinder } from '@/components/job-chip'
import { Dialog } from '@/ui/dialog'
import { BackfillDialog } from '../job/backfill-dialog'

/** Asks for a job, and then for the range with the dialog of the page of a job. */
export function NewBackfill({ jobId, onClose }: { jobId: string | undefined; onClose: () => void }) {
  const [chosen, setChosen] = useState(jobId)
  if (chosen !== undefined) return <BackfillDialog jobId={chosen} onClose={onClose} />
  return (
    <Dialog open onClose={onClose} title="New backfill" description="Which job should run the fires of a past range?">
      <JobFinder onChoose={setChosen} className="w-full" />
    </Dialog>
  )
}
