import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Backfills" icon="backfill" />
}
