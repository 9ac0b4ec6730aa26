/** An execution that was stopped receives everything that a later request adds. */
import { expect, test } from '@jest/globals'
import { ExecutionHandle } from '../../../actors/daemon/execution-runner.ts'
import type { Execution, StopRequest } from '../../../core/daemon/ports.ts'
import { yes } from '../../../core/result.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createRecordingLog } from '../../support/recording-log.ts'

test('a cancelled execution receives the kill, and of the loss of its lease', () => {
  const received: StopRequest[] = []
  const execution: Execution = {
    prepare: async () => yes({}),
    runAgent: () => new Promise(() => {}),
    finish: () => new Promise(() => {}),
    stop: (request) => received.push(request),
    whenExited: () => new Promise(() => {}),
  }
  const handle = new ExecutionHandle('ls-1', execution, {
    clock: new ManualClock(),
    log: createRecordingLog(),
    onPrepared: () => {},
    onPrepareFailed: () => {},
    onAgentEnded: () => {},
    onEnded: () => {},
    onGone: () => {},
  })
  handle.runAgent()
  const cancel: StopRequest = { how: 'interrupt', reason: 'cancelled' }
  const kill: StopRequest = { how: 'kill', reason: 'the lease is lost' }
  for (const request of [
    cancel,
    cancel,
    kill,
    kill,
    { ...kill, leaseLost: true },
    { ...kill, leaseLost: true },
  ])
    handle.stop(request)
  expect(received).toEqual([cancel, kill, { ...kill, leaseLost: true }])
})
