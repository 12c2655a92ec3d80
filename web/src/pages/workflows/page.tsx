import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Workflows" icon="workflows" />
}
