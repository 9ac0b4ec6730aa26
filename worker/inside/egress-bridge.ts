/**
 * The inner end of the way out: `egress-bridge PORT SOCKET`, started inside a sandbox before its command.
 *
 * Each connection to the port on this loopback is passed on to the socket, byte for byte, each half closed on its own.
 * It decides nothing and trusts nobody; the proxy at the other end does the deciding. Once it listens it says so, lets
 * go of its output, and serves until the sandbox ends. Needs nothing but Node, for it is mounted alone.
 */
import { closeSync, openSync, writeSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'

const [STDOUT, STDERR] = [1, 2] as const
/** Sent to everybody at a terminal, or by a program to its own group; none of them is meant for this one. */
const IGNORED_SIGNALS = ['SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGTERM', 'SIGTSTP'] as const

const [port = '', path = ''] = process.argv.slice(2)

for (const signal of IGNORED_SIGNALS) process.on(signal, () => {})

const server = createServer({ allowHalfOpen: true, noDelay: true }, forwardConnection)
server.once('error', reportFailure)
server.listen(Number(port), '127.0.0.1', () => {
  // From now on an error is one connection that could not be taken.
  server.off('error', reportFailure).on('error', () => {})
  writeSync(STDOUT, 'listening')
  releaseOutput()
})

function reportFailure({ message }: Error): void {
  writeSync(STDOUT, message)
  process.exit(1)
}

function forwardConnection(inner: Socket): void {
  const outer = connect({ path, allowHalfOpen: true })
  inner.pipe(outer)
  outer.pipe(inner)
  closeTogether(inner, outer)
  closeTogether(outer, inner)
}

/** What was read before a clean end is still delivered; a broken side breaks the other, so that programs notice. */
function closeTogether(socket: Socket, partner: Socket): void {
  socket.on('error', () => {})
  socket.on('close', (broken) => {
    if (broken) resetConnection(partner)
    else partner.destroySoon()
  })
}

/** Only TCP has a reset; of a socket file Node throws when asked for one. */
function resetConnection(socket: Socket): void {
  if (socket.remoteFamily === undefined) socket.destroy()
  else socket.resetAndDestroy()
}

/** The numbers stay taken: a connection that got one of them would be written to by whoever prints. */
function releaseOutput(): void {
  for (const descriptor of [STDOUT, STDERR]) {
    closeSync(descriptor)
    openSync('/dev/null', 'w')
  }
}
