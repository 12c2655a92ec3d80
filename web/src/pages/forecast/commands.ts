import { type Commands, cli, curl, python } from '@/lib/quote'
import { apiUrl, queryString } from '@/lib/url'

/** Returns the commands that fetch a forecast. Without a range, they fetch the coming week. */
export function forecastCommands(range?: { from: number; to: number }): Commands {
  const from = range === undefined ? undefined : new Date(range.from).toISOString()
  const to = range === undefined ? undefined : new Date(range.to).toISOString()
  const bucket = range === undefined ? '1h' : '1m'
  return {
    curl: curl('GET', apiUrl('/v1/forecast') + queryString({ from, to, bucket })),
    cli: cli(['forecast'], { from, to, bucket }),
    python: python('forecast', from === undefined ? [] : [from, to], { bucket }),
  }
}
