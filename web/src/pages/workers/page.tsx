import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Workers" icon="workers" />
}
