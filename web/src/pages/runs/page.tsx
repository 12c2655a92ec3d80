import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Runs" icon="runs" />
}
