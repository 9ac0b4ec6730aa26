/** A table of clocks: which of them may delete what can't be made again. */
import { describe, expect, test } from '@jest/globals'
import { type ClockMemory, compareWithHost, judgeClock, type WallReading } from '../../core/trusted-clock.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** The newest record of an earlier process. */
const NEWEST = Date.parse('2026-06-01T00:00:00.000Z')

type Step = readonly [wallMs: number, elapsedMs: number, ...witnesses: number[]]

const readingOf = ([wallMs, elapsedMs, ...witnesses]: Step): WallReading => ({
  wall: NEWEST + wallMs,
  elapsed: elapsedMs,
  witnesses: () => witnesses.map((ms) => NEWEST + ms),
})

/** The judgement of each step; times are milliseconds after the newest record. A `restart` forgets the time that has passed. */
function follow(steps: readonly (Step | 'restart')[], from: ClockMemory | undefined): string[] {
  let memory = from
  return steps.flatMap((step) => {
    if (step === 'restart') {
      memory = memory === undefined ? undefined : afterRestart(memory)
      return []
    }
    const judged = judgeClock(memory, readingOf(step))
    memory = judged.memory
    return [judged.fault ?? 'good']
  })
}

/** What the disk holds: readings of the wall clock alone. */
const afterRestart = ({ good, doubted }: ClockMemory): ClockMemory => ({
  good: { wall: good.wall },
  ...(doubted === undefined ? {} : { doubted: { since: doubted.since, last: { wall: doubted.last.wall } } }),
})

const recorded: ClockMemory = { good: { wall: NEWEST } }

describe('a clock after a start', () => {
  const cases: readonly (readonly [string, readonly (Step | 'restart')[], readonly string[]])[] = [
    ['soon after the newest record is good', [[HOUR, 0]], ['good']],
    ['up to thirty days after the newest record is good', [[30 * DAY, 0]], ['good']],
    ['more than thirty days after it is contradicted', [[30 * DAY + 1, 0]], ['ahead']],
    ['up to an hour before the newest record is good', [[-HOUR, 0]], ['good']],
    ['more than an hour before it is contradicted', [[-HOUR - 1, 0]], ['behind']],
    [
      'ahead is good once another machine agrees',
      [
        [40 * DAY, 0],
        [40 * DAY + 15_000, 15_000, 40 * DAY],
      ],
      ['ahead', 'good'],
    ],
    [
      'ahead stays contradicted while others disagree',
      [
        [40 * DAY, 0, DAY],
        [41 * DAY, DAY, 2 * DAY],
      ],
      ['ahead', 'ahead'],
    ],
    ['ahead is good when one of several others agrees', [[40 * DAY, 0, DAY, 40 * DAY - HOUR]], ['good']],
    ['behind stays contradicted whoever agrees', [[-DAY, 0, -DAY]], ['behind']],
    [
      'behind is good when it is set right',
      [
        [-DAY, 0],
        [HOUR, 1_000],
      ],
      ['behind', 'good'],
    ],
    [
      'ahead is good when it is set right',
      [
        [40 * DAY, 0],
        [HOUR, 1_000],
      ],
      ['ahead', 'good'],
    ],
    [
      'ahead is believed after a week in step',
      [
        [40 * DAY, 0],
        [47 * DAY - 1, 7 * DAY - 1],
        [47 * DAY, 7 * DAY],
      ],
      ['ahead', 'ahead', 'good'],
    ],
    [
      'ahead is believed after a week in step across restarts',
      [[40 * DAY, 0], 'restart', [44 * DAY, 0], 'restart', [47 * DAY, 0]],
      ['ahead', 'ahead', 'good'],
    ],
    [
      'is not believed after a week in step that others deny',
      [
        [40 * DAY, 0],
        [47 * DAY, 7 * DAY, 7 * DAY],
      ],
      ['ahead', 'ahead'],
    ],
    [
      'that jumps while it is contradicted begins its week again',
      [
        [40 * DAY, 0],
        [45 * DAY, 1_000],
        [48 * DAY, 3 * DAY],
      ],
      ['ahead', 'ahead', 'ahead'],
    ],
    [
      'a jump ahead is remembered over a restart',
      [[0, 0], [20 * DAY, 60_000], 'restart', [20 * DAY + HOUR, 0]],
      ['good', 'moved', 'moved'],
    ],
    [
      'a jump that was set right before a restart is not',
      [[0, 0], [20 * DAY, 60_000], 'restart', [HOUR, 0]],
      ['good', 'moved', 'good'],
    ],
    [
      'behind is good when the time of the newest record has come',
      [
        [-DAY, 0],
        [-HOUR, 23 * HOUR],
      ],
      ['behind', 'good'],
    ],
  ]
  test.each(cases)('%s', (_, steps, judgements) => {
    expect(follow(steps, recorded)).toEqual(judgements)
  })

  test('is good when nothing was ever recorded', () => {
    expect(follow([[400 * DAY, 0]], undefined)).toEqual(['good'])
  })
})

describe('the clock of a running process', () => {
  const cases: readonly (readonly [string, readonly Step[], readonly string[]])[] = [
    [
      'is good while it moves with the time',
      [
        [0, 0],
        [DAY, DAY],
        [90 * DAY, 90 * DAY],
      ],
      ['good', 'good', 'good'],
    ],
    [
      'is good after a small correction',
      [
        [0, 0],
        [HOUR + 60_000, 60_000],
      ],
      ['good', 'good'],
    ],
    [
      'is contradicted after a jump ahead',
      [
        [0, 0],
        [20 * DAY, 60_000],
      ],
      ['good', 'moved'],
    ],
    [
      'is contradicted after a jump back',
      [
        [0, 0],
        [-20 * DAY, 60_000],
      ],
      ['good', 'moved'],
    ],
    [
      'stays contradicted at the next readings',
      [
        [0, 0],
        [20 * DAY, 60_000],
        [20 * DAY + 60_000, 120_000],
      ],
      ['good', 'moved', 'moved'],
    ],
    [
      'is good once it has jumped back',
      [
        [0, 0],
        [20 * DAY, 60_000],
        [120_000, 120_000],
      ],
      ['good', 'moved', 'good'],
    ],
    [
      'is good after a jump that another machine confirms',
      [
        [0, 0],
        [20 * DAY, 60_000, 20 * DAY],
      ],
      ['good', 'good'],
    ],
    [
      'is believed after a week in step',
      [
        [0, 0],
        [20 * DAY, 60_000],
        [27 * DAY, 7 * DAY + 60_000],
      ],
      ['good', 'moved', 'good'],
    ],
  ]
  test.each(cases)('%s', (_, steps, judgements) => {
    expect(follow(steps, recorded)).toEqual(judgements)
  })
})

describe('the clock of a worker', () => {
  test.each([
    ['that its host confirms is its own', 10 * HOUR, 11 * HOUR, { now: 10 * HOUR, isConfirmed: true }],
    [
      'that differs by more than an hour gives way to the host’s',
      12 * HOUR,
      HOUR,
      { now: HOUR, isConfirmed: false },
    ],
    ['is unconfirmed while no host has said its time', HOUR, undefined, { now: HOUR, isConfirmed: false }],
  ])('%s', (_, own, hosts, time) => {
    expect(compareWithHost(own, hosts)).toEqual(time)
  })
})
