/**
 * A minimal server on uWebSockets.js: without routing table, headers or checks.
 *
 * Arguments: the sizes of the response bodies, the first at /0, the next at /1. Prints its port when it listens.
 */
import uWS from 'uWebSockets.js'

const app = uWS.App()
for (const [at, size] of process.argv.slice(2).entries()) {
  const body = 'x'.repeat(Number(size))
  app.get(`/${at}`, (response) => void response.end(body))
}
app.listen('127.0.0.1', 0, (socket) => {
  if (socket === false) throw new Error('cannot listen')
  console.log(uWS.us_socket_local_port(socket))
})
