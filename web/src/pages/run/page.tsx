import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Run" icon="runs" />
}
