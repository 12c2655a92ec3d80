import { expect, it } from 'vitest'
import { fireRows, offsetText } from './next-fires'

it('marks where the clocks of the zone change between fires', () => {
  const fires = ['2026-10-24T00:30:00Z', '2026-10-25T00:30:00Z', '2026-10-26T01:30:00Z'].map(fireTime => ({ fireTime }))
  expect(fireRows(fires, 'Europe/Berlin').map(row => row.kind)).toEqual(['fire', 'fire', 'change', 'fire'])
  expect(fireRows(fires, 'Europe/Berlin')[2]).toMatchObject({ before: '+02:00', after: '+01:00' })
  expect(fireRows(fires, 'UTC')).toHaveLength(3)
  expect(fireRows(fires, null)).toHaveLength(3)
})

it('joins the marks of both answers', () => {
  const at = Date.parse('2026-10-25T00:30:00Z')
  const marks = new Map([[at, { mark: 'dst_overlap', note: 'comes twice' }]])
  const fire = { fireTime: '2026-10-25T00:30:00Z' }
  expect(fireRows([fire], null, marks)).toMatchObject([{ mark: 'dst_overlap', note: 'comes twice' }])
  expect(fireRows([{ ...fire, mark: 'excluded', note: 'holiday' }], null, marks)).toMatchObject([
    { mark: 'excluded', note: 'holiday' },
  ])
})

it('writes offsets', () => {
  expect([0, 5.5 * 3_600_000, -9.5 * 3_600_000].map(offsetText)).toEqual(['+00:00', '+05:30', '−09:30'])
})
