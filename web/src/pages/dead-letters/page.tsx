import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Dead letters" icon="dead" />
}
