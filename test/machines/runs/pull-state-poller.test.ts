/** Tests of PullStatePoller with failing ports. */
import { expect, test } from '@jest/globals'
import { PULL_POLL_MS, PullStatePoller } from '../../../actors/runs/pull-state-poller.ts'
import { yes } from '../../../core/result.ts'
import type { Run } from '../../../protocol/run.ts'
import { aRun } from '../../rules/run/runs.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { ManualPullRequests, manualPullUrl } from '../../support/manual-code-host.ts'
import { createRecordingLog } from '../../support/recording-log.ts'

const URL = manualPullUrl('owner/name', 1)

test('a disk that can’t be read costs one round, and fails no caller', async () => {
  const [clock, log, pulls] = [new ManualClock(), createRecordingLog(), new ManualPullRequests()]
  pulls.pulls.set(URL, 'merged')
  let isBroken = true
  const run: Run = aRun({ status: 'completed', prUrl: URL, prState: 'open' })
  const list = () => {
    if (isBroken) throw new Error('the disk is gone')
    return [run]
  }
  const seen: string[] = []
  const watch = new PullStatePoller({
    clock,
    log,
    runs: { list, get: () => run },
    pullRequestApi: () => yes(pulls),
    latestRun: () => run,
    placeOf: () => yes({ remote: 'owner/name', number: 1 }),
    onUnconfirmed: () => {},
    onPullState: (_, url, state) => seen.push(`${url} ${state}`),
    onPolled: () => {},
    onRound: () => {},
  })
  watch.start()
  watch.pollPull({ remote: 'owner/name', number: 1 })
  await clock.advance(PULL_POLL_MS)
  expect(log.lines.filter(({ level }) => level === 'error')).toHaveLength(2)
  isBroken = false
  await clock.advance(PULL_POLL_MS)
  expect(seen).toEqual([`${URL} merged`])
  watch.stop()
})
