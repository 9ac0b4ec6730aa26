/** The inspection socket: frames both ways, what it refuses, and its limits. */
import { expect, test } from '@jest/globals'
import type { InspectionReceiver } from '../../../core/ports/connections.ts'
import { no, yes } from '../../../core/result.ts'
import type { InspectRequest } from '../../../protocol/inspection.ts'
import { INSPECT_VIEWERS_MAX } from '../../../protocol/limits.ts'
import { INSPECT_REQUEST_BYTES_MAX } from '../../../transport/sockets/inspect.ts'
import { connectSocket } from '../../support/socket-client.ts'
import { openTestServer } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const PATH = '/ws/inspect'

async function open() {
  const server = await openTestServer()
  const viewers: { receiver: InspectionReceiver; requests: InspectRequest[]; closed: number }[] = []
  server.hostApi.inspected = (receiver) => {
    const viewer = { receiver, requests: [] as InspectRequest[], closed: 0 }
    viewers.push(viewer)
    receiver.send({ type: 'inspect-hello', version: '1', now: 1, actors: 0 })
    return yes({
      follow: (request) => void viewer.requests.push(request),
      onDrained: () => {},
      close: () => {
        viewer.closed += 1
      },
    })
  }
  return { ...server, viewers }
}

test('a viewer receives frames, says whom it follows, and ends with its socket', async () => {
  const { port, viewers } = await open()
  const client = connectSocket(port, PATH)
  expect(await client.firstFrames(1)).toEqual([{ type: 'inspect-hello', version: '1', now: 1, actors: 0 }])
  const request = { type: 'inspect-follow', actors: ['run/r-1'], all: true }
  client.send(request)
  await until('the host has the request', () => viewers[0]?.requests.length === 1)
  expect(viewers[0]?.requests).toEqual([request])
  client.close()
  await until('the viewer is closed', () => viewers[0]?.closed === 1)
})

test.each([
  ['no object', '7', 1008, /must be an object/],
  ['an unknown frame', '{"type":"follow"}', 1008, /type/],
  [
    'too many actors',
    JSON.stringify({ type: 'inspect-follow', actors: Array(65).fill('a') }),
    1008,
    /actors/,
  ],
  ['a frame that is too large', ' '.repeat(INSPECT_REQUEST_BYTES_MAX + 1), 1009, /at most/],
  ['bytes', new Uint8Array([1]), 1003, /not binary/],
])('%s is refused with the reason', async (_, sent, code, reason) => {
  const { port } = await open()
  const client = connectSocket(port, PATH)
  await client.opened
  client.sendText(sent)
  expect(await client.closed).toEqual({ code, reason: expect.stringMatching(reason) })
})

test('nobody watches without the token, and only so many with it', async () => {
  const { port, hostApi } = await open()
  await expect(connectSocket(port, PATH, { authorization: 'Bearer wrong' }).opened).rejects.toThrow()
  const clients = Array.from({ length: INSPECT_VIEWERS_MAX }, () => connectSocket(port, PATH))
  for (const client of clients) await client.opened
  await expect(connectSocket(port, PATH).opened).rejects.toThrow()
  for (const client of clients) client.close()
  await Promise.all(clients.map(({ closed }) => closed))
  hostApi.inspected = () => no('conflict', 'enough watch')
  let end = { code: 0, reason: '' }
  await until('the sockets are counted out', async () => {
    end = await connectSocket(port, PATH).closed
    return end.code === 1013
  })
  expect(end.reason).toBe('enough watch')
})
