/**
 * Tickets of a Linear become pull requests on a GitHub: real hosts, workers, sandboxes and git, and two neighbours that
 * can be made to fail.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import type { ConnectPollResponse, ConnectResponse } from '../../protocol/connect.ts'
import type { PullDetail, PullListResponse } from '../../protocol/pulls.ts'
import { Crossing, OWNER, REVIEWER, STORY_WAIT_MS } from '../support/crossing.ts'
import { until } from '../support/real.ts'
import { GATE } from '../support/yard.ts'

const TEST_MS_MAX = 180_000
/** Three polls of the tracker. */
const QUIET_MS = 3_000

function story(title: string, tell: () => Promise<void>): void {
  test(title, tell, TEST_MS_MAX)
}

const WORK = ['write src/hello.txt', '  Hello!', 'commit Say hello', 'say It says hello now.'] as const

/** Both neighbours connected, as a person does it who has a key of the one and an account at the other. */
async function connected(crossing: Crossing): Promise<void> {
  const saved = await crossing.send('PUT', '/api/settings/credentials', {
    trackerApiKey: crossing.linear.apiKey,
  })
  expect(saved.body).toMatchObject({ results: { tracker: { ok: true, detail: 'Ada Lovelace in Acme' } } })
  await byDevice(crossing)
}

async function byDevice({ github, send, get }: Bound): Promise<void> {
  const begun = (await send('POST', '/api/connect/codehost')).body as ConnectResponse
  if (begun.status !== 'device') throw new Error(JSON.stringify(begun))
  expect(await get('/api/connect/codehost/poll')).toEqual({ status: 'pending' })
  github.device.approve(begun.userCode, OWNER)
  let polled: ConnectPollResponse = { status: 'pending' }
  const isOver = async (): Promise<boolean> => {
    polled = await get<ConnectPollResponse>('/api/connect/codehost/poll')
    return polled.status !== 'pending'
  }
  await until('the code host is connected', isOver, STORY_WAIT_MS, 50)
  expect(polled).toMatchObject({ status: 'connected', detail: expect.stringContaining(OWNER) })
}
