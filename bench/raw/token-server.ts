/**
 * The tracker and the code host as the OAuth helper sees them: a new pair of tokens, or "not confirmed yet", at
 * once.
 *
 * The server is as cheap as possible, so that nothing waits for it. Prints its port when it listens.
 */
import uWS, { type HttpResponse } from 'uWebSockets.js'

const TOKENS = JSON.stringify({
  access_token: `lin_oauth_${'a'.repeat(64)}`,
  token_type: 'Bearer',
  expires_in: 86_399,
  scope: 'read write',
  refresh_token: `lin_refresh_${'b'.repeat(64)}`,
})
const PENDING = JSON.stringify({
  error: 'authorization_pending',
  error_description: 'The authorization request is still pending.',
  error_uri: 'https://docs.example.org/device-flow#error-codes',
})

const app = uWS.App()
app.post('/oauth/token', respondWith(TOKENS))
app.post('/login/oauth/access_token', respondWith(PENDING))
app.listen('127.0.0.1', 0, (socket) => {
  if (socket === false) throw new Error('cannot listen')
  console.log(uWS.us_socket_local_port(socket))
})

function respondWith(body: string): (response: HttpResponse) => void {
  return (response) => {
    response.onAborted(() => {})
    response.onData((_piece, isLast) => {
      if (!isLast) return
      response.cork(() => void response.writeHeader('content-type', 'application/json').end(body))
    })
  }
}
