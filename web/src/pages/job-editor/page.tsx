import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="New job" icon="plus" />
}
