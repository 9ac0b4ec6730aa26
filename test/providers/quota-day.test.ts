/**
 * A day under the limits: a host with fifty repositories, two hundred open pull requests and tickets that change all
 * the time stays below half of every quota of Linear's and GitHub's, and whoever is told to stop stops.
 *
 * A short share of a day is simulated here; QUOTA_HOURS=24 makes it a whole one (some minutes).
 */
import { afterEach, describe, expect, test } from '@jest/globals'
import { GITHUB_LIMITS } from '../support/github/quotas.ts'
import { KEY_LIMITS, OAUTH_LIMITS } from '../support/linear/quota.ts'
import { cost, type Entry, HOUR_MS, isWrite, MINUTE_MS, one, peak, weight } from '../support/quota/meter.ts'
import {
  type Neighbourhood,
  type NeighbourhoodOptions,
  neighbourhood,
} from '../support/quota/neighbourhood.ts'
import { People } from '../support/quota/people.ts'
import { firstSeed, Random } from '../support/random.ts'

const HOURS = Number(process.env.QUOTA_HOURS ?? 0)
const SEED = firstSeed(5)
const LONG_MS = 1_800_000

const open: Neighbourhood[] = []

async function started(options: NeighbourhoodOptions): Promise<Neighbourhood> {
  const place = await neighbourhood(options)
  open.push(place)
  place.host.start()
  await place.clock.turn()
  return place
}

afterEach(async () => {
  for (const place of open.splice(0)) await place.close()
})

/** Of the dearest hour and minute, in shares of what is allowed. */
function shares({ meter }: Neighbourhood, linear: typeof KEY_LIMITS) {
  const [tickets, core, graphql] = [meter.of('linear'), meter.of('core'), meter.of('graphql')]
  return {
    'Linear requests an hour': share(peak(tickets, HOUR_MS, one), linear.requests),
    'Linear points an hour': share(peak(tickets, HOUR_MS, cost), linear.points),
    'REST requests an hour': share(peak(core, HOUR_MS, cost), GITHUB_LIMITS.hourly),
    'GraphQL points an hour': share(peak(graphql, HOUR_MS, cost), GITHUB_LIMITS.hourly),
    'REST points a minute': share(peak(core, MINUTE_MS, weight), GITHUB_LIMITS.pointsPerMinute.core),
    'GraphQL points a minute': share(peak(graphql, MINUTE_MS, weight), GITHUB_LIMITS.pointsPerMinute.graphql),
    'writes a minute': share(
      peak(meter.of('core', 'graphql'), MINUTE_MS, writes),
      GITHUB_LIMITS.createdPerMinute,
    ),
    'writes an hour': share(peak(meter.of('core', 'graphql'), HOUR_MS, writes), GITHUB_LIMITS.createdPerHour),
    'at once': share(meter.crowd, GITHUB_LIMITS.concurrent),
  }
}

const share = (most: number, limit: number) => ({
  most,
  limit,
  percent: Math.round((most / limit) * 1000) / 10,
})
const writes = (entry: Entry): number => (isWrite(entry) ? 1 : 0)

describe('below half of every quota', () => {
  test.each<[NeighbourhoodOptions, number, typeof KEY_LIMITS]>([
    [{ tracker: 'linear oauth' }, 2, OAUTH_LIMITS],
    [{ tracker: 'linear key', repos: 4, tickets: 2_000, eligible: 1_000 }, 4, KEY_LIMITS],
    [{ tracker: 'github' }, 1, KEY_LIMITS],
  ])(
    '%j',
    async (options, hours, limits) => {
      const t = Date.now()
      const place = await started(options)
      const people = new People(place, new Random(SEED))
      await people.work(hours)
      const all = shares(place, limits)
      const rest = place.meter.of('core')
      console.log(Date.now() - t, options, JSON.stringify(all, null, 1), {
        days: people.done,
        requests: rest.length,
        unchanged: rest.filter(({ status }) => status === 304).length,
        linear: place.linear.counts,
        routes: [...place.github.counters.routes],
        refusals: people.refusals.slice(0, 5),
        log: place.log.lines.filter(({ level }) => level !== 'debug').slice(0, 5),
        bugs: place.github.counters.bugs,
        v: place.github.violations.slice(0, 3),
      })
      expect([place.github.counters.refusedPrimary, place.github.counters.refusedSecondary]).toEqual([0, 0])
    },
    LONG_MS,
  )
})
