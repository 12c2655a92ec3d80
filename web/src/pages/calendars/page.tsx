import { Placeholder } from '../placeholder'

export function Page() {
  return <Placeholder title="Calendars" icon="calendar" />
}
