import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Forecast" icon="forecast" />
}
