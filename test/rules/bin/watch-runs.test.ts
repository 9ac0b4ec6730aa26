/** Watching runs until they have ended, where the hello does not hold them. */
import { expect, test } from '@jest/globals'
import { watchRuns } from '../../../bin/cli/runs/watch-runs.ts'
import type { ClientConnection } from '../../../client/connection.ts'
import { HostRefusal } from '../../../client/errors.ts'
import { fakeRun } from '../../support/fake-host-api.ts'

const RUN = fakeRun('run-1', 'running', 'ENG-1')

/** A host whose hello holds no run, and that answers requests so. @param frames follow the hello */
function connectionTo(status: number, answer: unknown, ...frames: readonly object[]): ClientConnection {
  return {
    address: () => ({ url: 'http://host.example', token: 'secret' }),
    send: async () => ({
      status,
      header: () => undefined,
      body: (async function* () {
        yield Buffer.from(JSON.stringify(answer))
      })(),
    }),
    dial: (_, __, listener) => {
      setImmediate(() => {
        listener.onOpen()
        for (const frame of [{ type: 'hello', runs: [] }, ...frames]) listener.onText(JSON.stringify(frame))
      })
      return { send: () => {}, backlog: () => 0, close: () => {} }
    },
  }
}

test('a run that ended long before the hello is asked for', async () => {
  const { signal } = new AbortController()
  const ended = { ...RUN, status: 'completed' }
  const ends: string[] = []
  const onEnd = ({ status }: { status: string }) => ends.push(status)
  const watched = await watchRuns(connectionTo(200, ended), [RUN], { signal, onEnd })
  expect(watched).toEqual({ allEnded: true, runs: [ended] })
  expect(ends).toEqual(['completed'])
})

test('a run that is gone ends the watching with the refusal', async () => {
  const { signal } = new AbortController()
  const watching = watchRuns(connectionTo(404, { error: 'no such run' }), [RUN], { signal })
  await expect(watching).rejects.toBeInstanceOf(HostRefusal)
})

test('a run that begins to run is told with its agent', async () => {
  const { signal } = new AbortController()
  const prepared = { ...RUN, status: 'preparing' as const }
  const event = { runId: RUN.id, index: 1, at: '', type: 'status', to: 'running', provider: 'agentB' }
  const frames = [
    { type: 'run-event', event },
    { type: 'run-updated', run: RUN },
    { type: 'run-updated', run: { ...RUN, status: 'completed' } },
  ]
  const changes: unknown[] = []
  await watchRuns(connectionTo(200, prepared, ...frames), [prepared], {
    signal,
    onChange: ({ status }, provider) => changes.push([status, provider]),
  })
  expect(changes).toEqual([['running', 'agentB']])
})
