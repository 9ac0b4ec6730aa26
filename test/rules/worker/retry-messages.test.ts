/** The words of retries in the run's log and in the final refusal. */
import { expect, test } from '@jest/globals'
import { no, yes } from '../../../core/result.ts'
import { type Attempt, whileFetching, whilePublishing, withRetries } from '../../../worker/git/retry.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const MINUTE_MS = 60_000
const random = { fraction: () => 0 }

const limits = { unreachableSeconds: 20 }
const publishing: typeof whileFetching = (logToRun) =>
  whilePublishing({ limits, retentionHours: 1 }, logToRun)
const lastChance: typeof whileFetching = (logToRun) =>
  whilePublishing({ limits, retentionHours: 0 }, logToRun)

/** Fails until this minute, and names the pause that the server requests. */
async function retry(minutes: number, longRetry: typeof whileFetching, requestedMs?: number) {
  const clock = new ManualClock(Date.parse('2026-01-01T00:00:00.000Z'))
  const lines: string[] = []
  const attempt = async (): Promise<Attempt<string>> =>
    clock.monotonic() >= minutes * MINUTE_MS
      ? { result: yes('done'), isTransient: false }
      : { result: no('unavailable', 'no answer', requestedMs), isTransient: true }
  const done = withRetries(
    { clock, random },
    undefined,
    attempt,
    longRetry((line) => lines.push(line)),
  )
  await clock.advance(60 * MINUTE_MS)
  const result = await done
  return { lines, refusal: result.ok ? undefined : result.refusal.message }
}

test.each<[string, () => ReturnType<typeof retry>, string[], string | undefined]>([
  [
    'an outage of two minutes while the sandbox will be kept',
    () => retry(2, publishing),
    ['no answer; trying again for up to 3 minutes', 'it worked after 2 minutes'],
    undefined,
  ],
  [
    'a pause that the server requests and that is longer than the slot is held',
    () => retry(5, publishing, 20 * MINUTE_MS),
    [],
    'no answer (not within 20 minutes, which is too long to wait for)',
  ],
  [
    'an outage of five minutes, when the sandbox will not be kept',
    () => retry(5, lastChance),
    ['no answer; trying again for up to 10 minutes', 'it worked after 5 minutes'],
    undefined,
  ],
  [
    'an outage that outlasts a fetch',
    () => retry(50, whileFetching),
    ['no answer; trying again for up to 3 minutes'],
    'no answer (tried for 3 minutes)',
  ],
  [
    'a pause that the server requests',
    () => retry(5, lastChance, 20 * MINUTE_MS),
    [
      // The worker adds a pause of its own, one second here.
      'no answer; waiting until 2026-01-01T00:20:01.000Z, as the other side asks',
      'it worked after 20 minutes',
    ],
    undefined,
  ],
  [
    'a requested pause of ten hours',
    () => retry(5, lastChance, 600 * MINUTE_MS),
    [],
    'no answer (not within 600 minutes, which is too long to wait for)',
  ],
])('%s', async (_, outcome, lines, refusal) => {
  expect(await outcome()).toEqual({ lines, refusal })
})
