import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Tasks" icon="tasks" />
}
