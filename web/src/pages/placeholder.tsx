import { EmptyState } from '@/components/notices'
import { PageHead } from '@/layout/page'
import type { IconName } from '@/ui/icon'

/** Stands where a page is to come. */
export function Placeholder({ title, icon }: { title: string; icon: IconName }) {
  return (
    <>
      <PageHead title={title} name={title} />
      <EmptyState icon={icon} title="This page is not here yet">
        The command line shows the same.
      </EmptyState>
    </>
  )
}
