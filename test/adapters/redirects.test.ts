/** No client of the product follows a redirect to another origin, so none sends its secret there. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from '@jest/globals'
import { outgoingConnections, SENT_SECRET } from '../support/outgoing-connections.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { closeAfterTest } from '../support/test-resources.ts'

async function listen(answer: RequestListener, onUpgrade: (request: IncomingMessage) => string) {
  const server = createServer(answer)
  server.on('upgrade', (request, socket) => socket.end(onUpgrade(request)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closeAfterTest(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test.each([301, 302, 303, 307, 308])('with %i', async (status) => {
  const reached: string[] = []
  const note = ({ method, url }: IncomingMessage) => void reached.push(`${method} ${url}`)
  const elsewhere = await listen(
    (request, response) => {
      note(request)
      response.end('{}')
    },
    (request) => {
      note(request)
      return 'HTTP/1.1 404 Not Found\r\n\r\n'
    },
  )
  let secrets = 0
  const redirected = ({ url, headers }: IncomingMessage) => {
    if (JSON.stringify(headers).includes(SENT_SECRET)) secrets += 1
    return `${elsewhere}${url}`
  }
  const url = await listen(
    (request, response) => void response.writeHead(status, { location: redirected(request) }).end(),
    (request) => `HTTP/1.1 ${status} Moved\r\nLocation: ${redirected(request)}\r\nContent-Length: 0\r\n\r\n`,
  )
  for (const [client, contact] of Object.entries(outgoingConnections({ url, folder: tempFolder() }))) {
    await contact()
    expect([client, reached]).toEqual([client, []])
  }
  // Each client but git and the OAuth helper shows its secret in a header at once.
  expect(secrets).toBeGreaterThanOrEqual(4)
})
