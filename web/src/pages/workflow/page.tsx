import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Workflow" icon="workflows" />
}
