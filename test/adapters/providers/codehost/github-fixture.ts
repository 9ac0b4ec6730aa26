/**
 * Connects our drivers with the fake GitHub through the real HTTP client, on a clock that runs a hundred times as fast,
 * because GitHub wants a second between two writes.
 */
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import type { Clock } from '../../../../core/ports/clock.ts'
import { HttpClientPool } from '../../../../providers/http/client-pool.ts'
import { createHttp } from '../../../../providers/http/http.ts'
import { type FakeGithub, type GithubOptions, startGithub } from '../../../support/github/github.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'

export const TOKEN = 'ghp_driver_planted'
export const ME = 'pat'
export const SOMEBODY = 'bo'
export const REMOTE = 'ada/lamps'

const SPEED = 100

export interface FastClock extends Clock {
  jump(ms: number): void
}

export function fastClock(): FastClock {
  const began = realClock.monotonic()
  const wall = Date.UTC(2026, 0, 1)
  let jumped = 0
  const monotonic = () => (realClock.monotonic() - began) * SPEED + jumped
  return {
    now: () => wall + Math.floor(monotonic()),
    monotonic,
    after: (ms, run) => realClock.after(ms / SPEED, run),
    endOfTick: realClock.endOfTick,
    jump: (ms) => {
      jumped += ms
    },
  }
}

export interface GithubBench {
  readonly github: FakeGithub
  readonly clients: Pick<HttpClientPool, 'clientFor' | 'close'>
  readonly clock: FastClock
  close(): Promise<void>
}

/** Both the driver's account and another person may push to the repository. */
export async function githubBench(options: Partial<GithubOptions> = {}): Promise<GithubBench> {
  const clock = fastClock()
  const people = [
    { login: ME, tokens: [TOKEN] },
    { login: SOMEBODY, tokens: ['ghp_bo'] },
  ]
  const members = { [ME]: 'push', [SOMEBODY]: 'push' } as const
  const repos = [{ fullName: REMOTE, members }]
  const github = await startGithub({ clock, people, repos, ...options })
  const http = createHttp({ clock: realClock, random: realRandom })
  const clients = new HttpClientPool({ http, clock, random: realRandom, log: createRecordingLog() })
  const close = async () => {
    clients.close()
    await http.close()
    await github.close()
  }
  return { github, clients, clock, close }
}
