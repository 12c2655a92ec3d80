import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Keys" icon="keys" />
}
