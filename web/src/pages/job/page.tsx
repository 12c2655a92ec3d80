import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Job" icon="jobs" />
}
