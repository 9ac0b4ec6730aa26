/** Seats of connections that wait for their registration: every address has its share, and nobody keeps others out. */
import { describe, expect, test } from '@jest/globals'
import {
  chooseJoiningSeat,
  chooseProvenSeat,
  chooseUnprovenSeat,
  holderOfAddress,
  type Seat,
  WORKER_SEAT_MS_MIN,
  WORKERS_JOINING_MAX,
  WORKERS_PROVEN_UNREGISTERED_MAX,
  WORKERS_UNREGISTERED_MAX,
  WORKERS_UNREGISTERED_PER_ADDRESS_MAX,
} from '../../../core/fleet/connection-seats.ts'

/** `counts`: how many seats each holder has; the seats are numbered from 0, all taken at 1000. */
const seats = (counts: Readonly<Record<string, number>>): Seat[] =>
  Object.entries(counts)
    .flatMap(([holder, count]) => Array.from({ length: count }, () => holder))
    .map((holder, number) => ({ number, holder, since: 1000 }))

const half = WORKERS_UNREGISTERED_MAX / 2
const NOW = 1000 + WORKER_SEAT_MS_MIN - 1

describe('a connection without proof', () => {
  test.each<[string, Seat[], string, number, object]>([
    ['has a seat when there is one', seats({ a: 3 }), 'b', NOW, { is: 'free' }],
    [
      'displaces the oldest of its own address at once when the address has its maximum',
      seats({ b: 1, a: WORKERS_UNREGISTERED_PER_ADDRESS_MAX }),
      'a',
      1000,
      { is: 'displace', number: 1 },
    ],
    [
      'displaces the oldest after two seconds',
      seats({ a: half, b: half }),
      'c',
      NOW + 1,
      { is: 'displace', number: 0 },
    ],
    [
      'displaces one of the largest address before',
      seats({ a: half - 1, b: half, c: 1 }),
      'c',
      NOW,
      { is: 'displace', number: half - 1 },
    ],
    [
      'has no seat before when every address has one',
      Array.from({ length: WORKERS_UNREGISTERED_MAX }, (_, number) => ({
        number,
        holder: `h${number}`,
        since: 1000,
      })),
      'c',
      NOW,
      { is: 'full' },
    ],
  ])('%s', (_, taken, holder, now, decision) => {
    expect(chooseUnprovenSeat(taken, holder, now)).toEqual(decision)
  })

  test('always has a seat while all others are of one address', () => {
    let taken: Seat[] = []
    for (let number = 0; number < 1000; number++) {
      const decision = chooseUnprovenSeat(taken, 'flood', 1000)
      if (decision.is === 'displace') taken = taken.filter((seat) => seat.number !== decision.number)
      expect(decision.is).not.toBe('full')
      taken.push({ number, holder: 'flood', since: 1000 })
      expect(chooseUnprovenSeat(taken, 'other', 1000)).toEqual({ is: 'free' })
    }
    expect(taken).toHaveLength(WORKERS_UNREGISTERED_PER_ADDRESS_MAX)
  })
})

test('a proven connection displaces only the oldest of the same worker', () => {
  const taken = seats({ 'worker a': WORKERS_PROVEN_UNREGISTERED_MAX, 'worker b': 1 })
  expect(chooseProvenSeat(taken, 'worker a')).toEqual({ is: 'displace', number: 0 })
  expect(chooseProvenSeat(taken, 'worker b')).toEqual({ is: 'free' })
})

test.each([
  ['127.0.0.1', 'loopback'],
  ['127.8.9.1', 'loopback'],
  ['::1', 'loopback'],
  ['192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8::6', '2001:db8:0:0::/64'],
  ['::', '0:0:0:0::/64'],
])('%s belongs to %s', (address, holder) => {
  expect(holderOfAddress(address)).toBe(holder)
})

describe('a connection with a join key', () => {
  const full = seats({ a: WORKERS_JOINING_MAX })
  test.each<[string, Seat[], string, number, object]>([
    ['has a seat beside many of the same key', full.slice(1), 'a', NOW, { is: 'free' }],
    ['has none when all are taken, and comes back', full, 'a', NOW, { is: 'full' }],
    ['displaces the oldest after two seconds', full, 'a', NOW + 1, { is: 'displace', number: 0 }],
    [
      'of another key displaces one of the key that has the most',
      full,
      'b',
      NOW,
      { is: 'displace', number: 0 },
    ],
  ])('%s', (_, taken, holder, now, decision) => {
    expect(chooseJoiningSeat(taken, holder, now)).toEqual(decision)
  })
})
