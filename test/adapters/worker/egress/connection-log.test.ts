/** Tests of the rate limit of the connection log. */
import { expect, test } from '@jest/globals'
import { makeConnectionLog } from '../../../../worker/sandbox/egress/connection-log.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

function createLog() {
  const clock = new ManualClock()
  const lines: string[] = []
  const journal = makeConnectionLog((line) => void lines.push(line), clock)
  const write = (times: number) => {
    for (let time = 0; time < times; time += 1) journal.record('a.example:443', 'refused')
  }
  return { clock, lines, journal, write }
}

test('a burst of a hundred lines, then one per second, and never more than a hundred at once again', async () => {
  const { clock, lines, write } = createLog()
  write(150)
  expect(lines).toHaveLength(100)
  await clock.advance(3_000)
  write(10)
  expect(lines.slice(100)).toEqual([
    'egress: 50 more lines left out',
    ...Array(3).fill('egress: a.example:443 refused'),
  ])
  await clock.advance(3_600_000)
  lines.length = 0
  write(150)
  expect(lines).toHaveLength(101)
})

test('slightly too frequent connections still get one line per second', async () => {
  const { clock, lines, write } = createLog()
  write(100)
  lines.length = 0
  for (let step = 0; step < 10; step += 1) {
    await clock.advance(600)
    write(1)
  }
  expect(lines.filter((line) => line.endsWith('refused'))).toHaveLength(6)
})

test('the end reports the omitted lines once', () => {
  const { lines, journal, write } = createLog()
  write(101)
  journal.reportOmitted()
  journal.reportOmitted()
  expect(lines.slice(100)).toEqual(['egress: 1 more line left out'])
})
