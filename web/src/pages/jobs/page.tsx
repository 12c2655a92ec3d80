import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Jobs" icon="jobs" />
}
