import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Overview" icon="overview" />
}
