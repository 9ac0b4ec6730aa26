/**
 * A minimal proxy: uWebSockets.js receives, undici forwards the body and returns the response.
 *
 * The proxy has no limits, deadlines, checks or secrets. Argument: the port of the upstream. Prints its own port
 * when it listens.
 */
import uWS, { type HttpResponse } from 'uWebSockets.js'
import { Agent } from 'undici'

/** As many connections as the product keeps. */
const CONNECTIONS = 64

const origin = `http://127.0.0.1:${process.argv[2]}`
const agent = new Agent({ connections: CONNECTIONS })
const headers = {
  accept: 'application/json',
  'content-type': 'application/x-www-form-urlencoded',
  'user-agent': 'bare-proxy',
}

const app = uWS.App()
app.get('/health', (response) => {
  response.writeHeader('content-type', 'application/json').end('{"ok":true}')
})
app.post('/oauth/tracker/refresh', proxyHandler('/oauth/token'))
app.post('/oauth/codehost/device/token', proxyHandler('/login/oauth/access_token'))
app.listen('127.0.0.1', 0, (socket) => {
  if (socket === false) throw new Error('cannot listen')
  console.log(uWS.us_socket_local_port(socket))
})

function proxyHandler(path: string): (response: HttpResponse) => void {
  return (response) => {
    const client = { isGone: false }
    const pieces: Buffer[] = []
    response.onAborted(() => {
      client.isGone = true
    })
    response.onData((piece, isLast) => {
      pieces.push(Buffer.from(piece.slice(0)))
      if (isLast) void forwardRequest(path, Buffer.concat(pieces), response, client)
    })
  }
}

async function forwardRequest(
  path: string,
  body: Buffer,
  response: HttpResponse,
  client: { readonly isGone: boolean },
): Promise<void> {
  const reply = await agent.request({ origin, path, method: 'POST', headers, body })
  const text = await reply.body.text()
  if (client.isGone) return
  response.cork(() => void response.writeHeader('content-type', 'application/json').end(text))
}
