/**
 * A day of requests: a host with fifty repositories, two hundred open pull requests and frequently changed tickets
 * stays below half of every quota of Linear and GitHub, in every hour and minute.
 *
 * The test simulates a short part of a working day. QUOTA_HOURS=24 simulates a whole day with eight working hours and
 * prints the usage, which takes some minutes.
 */
import { afterEach, describe, expect, test } from '@jest/globals'
import { GITHUB_LIMITS } from '../../support/github/quotas.ts'
import { KEY_LIMITS, type LinearLimits, OAUTH_LIMITS } from '../../support/linear/quota.ts'
import {
  type HostWithProviders,
  type HostWithProvidersOptions,
  startHostWithProviders,
} from '../../support/quota/host-with-providers.ts'
import {
  cost,
  countOne,
  HOUR_MS,
  isWrite,
  type MeterEntry,
  MINUTE_MS,
  peak,
  weight,
} from '../../support/quota/meter.ts'
import { SimulatedPeople } from '../../support/quota/working-hour.ts'
import { Random, seedFromEnvironment } from '../../support/random.ts'

const HOURS = Number(process.env.QUOTA_HOURS ?? 0)
const WORKING_HOURS_MAX = 8
const SEED = seedFromEnvironment(5)
const LONG_MS = 3_600_000

/** Few GitHub repositories: enough to show that the two services do not delay each other. */
const MANY_TICKETS: HostWithProvidersOptions = {
  tracker: 'linear key',
  repos: 4,
  tickets: 1_500,
  eligible: 1_000,
}

const open: HostWithProviders[] = []

afterEach(async () => {
  for (const place of open.splice(0)) await place.close()
})

/** The most expensive hours and minutes, each with its quota. */
function mostExpensive(
  { meter }: HostWithProviders,
  linear: LinearLimits,
): Record<string, readonly [most: number, of: number]> {
  const [tickets, core, graphql] = [meter.of('linear'), meter.of('core'), meter.of('graphql')]
  const { hourly, pointsPerMinute, createdPerMinute, createdPerHour, concurrent } = GITHUB_LIMITS
  return {
    'Linear requests an hour': [peak(tickets, HOUR_MS, countOne), linear.requests],
    'Linear points an hour': [peak(tickets, HOUR_MS, cost), linear.points],
    'REST requests an hour': [peak(core, HOUR_MS, cost), hourly],
    'GraphQL points an hour': [peak(graphql, HOUR_MS, cost), hourly],
    'REST points a minute': [peak(core, MINUTE_MS, weight), pointsPerMinute.core],
    'GraphQL points a minute': [peak(graphql, MINUTE_MS, weight), pointsPerMinute.graphql],
    'writes a minute': [peak(meter.of('core', 'graphql'), MINUTE_MS, writes), createdPerMinute],
    'writes an hour': [peak(meter.of('core', 'graphql'), HOUR_MS, writes), createdPerHour],
    'at once': [meter.inFlightMax, concurrent],
  }
}

const writes = (entry: MeterEntry): number => (isWrite(entry) ? 1 : 0)

/** A readable summary of the usage. */
function usageReport(
  { meter }: HostWithProviders,
  people: SimulatedPeople,
  most: ReturnType<typeof mostExpensive>,
): string {
  const rest = meter.of('core')
  const unchanged = rest.filter(({ status }) => status === 304).length
  const rows = Object.entries(most).map(
    ([what, [used, of]]) => `${what}: ${used} of ${of}, ${((100 * used) / of).toFixed(1)} %`,
  )
  const did = [...people.done].map(([action, times]) => `${action}: ${times}`)
  return [
    ...rows,
    `${rest.length} of REST, ${((100 * unchanged) / rest.length).toFixed(1)} % unchanged`,
    ...did,
  ].join('\n')
}

/** Simulates a day or a part of it, from the start of a host without cached data. */
async function simulateDay(options: HostWithProvidersOptions, shareOfAnHour: number) {
  const place = await startHostWithProviders(options)
  open.push(place)
  place.host.start()
  const people = new SimulatedPeople(place, new Random(SEED))
  await people.work(HOURS === 0 ? shareOfAnHour : Math.min(HOURS, WORKING_HOURS_MAX))
  await people.sleep(Math.max(0, HOURS - WORKING_HOURS_MAX))
  return { place, people }
}

describe('below half of every quota', () => {
  test.each<[string, HostWithProvidersOptions, number, LinearLimits[]]>([
    ['with Linear as an OAuth application', { tracker: 'linear oauth' }, 0.5, [OAUTH_LIMITS]],
    ['with a Linear API key, and the maximum of tickets', MANY_TICKETS, 0.6, [KEY_LIMITS, OAUTH_LIMITS]],
    ['with GitHub issues as tickets, on the same account', { tracker: 'github' }, 0.3, [KEY_LIMITS]],
  ])(
    '%s',
    async (name, options, shareOfAnHour, limits) => {
      const { place, people } = await simulateDay(options, shareOfAnHour)
      const { github, linear, meter } = place
      for (const limit of limits) {
        const most = mostExpensive(place, limit)
        if (HOURS > 0)
          console.log(`${name}, ${limit.requests} requests an hour\n${usageReport(place, people, most)}`)
        for (const [what, [used, of]] of Object.entries(most))
          expect([what, used, used <= of / 2]).toEqual([what, used, true])
      }
      const rest = meter.of('core')
      expect(rest.filter(({ status }) => status === 304).length).toBeGreaterThan(rest.length * 0.6)
      expect([github.counters.refusedPrimary, github.counters.refusedSecondary]).toEqual([0, 0])
      expect(linear.calls.filter(({ status }) => status !== 200)).toEqual([])
      expect([github.counters.bugs, github.violations]).toEqual([[], []])
      // People's requests fail because of the pull request's state only, never because of a quota.
      expect(people.refusals.filter((sentence) => !/is merged already/.test(sentence))).toEqual([])
      expect(people.done.get('open the page of pull requests')).toBeGreaterThan(0)
      expect(place.log.lines.filter(({ message }) => /asked|budget/.test(message))).toEqual([])
      expect(place.host.hostApi.hello().linearStatus).toMatchObject({ state: 'connected' })
    },
    LONG_MS,
  )
})
