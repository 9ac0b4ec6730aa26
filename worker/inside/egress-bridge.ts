/**
 * `egress-bridge PORT SOCKET …` connects ports of a sandbox's loopback to sockets of the worker: the egress proxy, the
 * model's API. It starts before the sandbox's command.
 *
 * Each connection to a port is forwarded to its socket byte for byte, and each half is closed separately. All checks
 * are made by the worker. The bridge prints `listening` once all ports are open, closes its output, and runs until the
 * sandbox ends. The bundle needs nothing but Node, because it is mounted alone.
 */
import { closeSync, openSync, writeSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'

const [STDOUT, STDERR] = [1, 2] as const
/** Signals that a terminal or a program sends to a whole process group; the bridge must survive them. */
const IGNORED_SIGNALS = ['SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGTERM', 'SIGTSTP'] as const

const forwards = readForwards(process.argv.slice(2))
let opening = forwards.length

for (const signal of IGNORED_SIGNALS) process.on(signal, () => {})

for (const { port, path } of forwards) {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (inner) =>
    forwardConnection(inner, path),
  )
  server.once('error', reportFailure)
  server.listen(port, '127.0.0.1', () => {
    // From now on an error concerns one connection that could not be accepted.
    server.off('error', reportFailure).on('error', () => {})
    opening -= 1
    if (opening > 0) return
    writeSync(STDOUT, 'listening')
    releaseOutput()
  })
}

function readForwards(words: readonly string[]): { readonly port: number; readonly path: string }[] {
  const [port, path, ...rest] = words
  if (port === undefined || path === undefined) return []
  return [{ port: Number(port), path }, ...readForwards(rest)]
}

function reportFailure({ message }: Error): void {
  writeSync(STDOUT, message)
  process.exit(1)
}

function forwardConnection(inner: Socket, path: string): void {
  const outer = connect({ path, allowHalfOpen: true })
  inner.pipe(outer)
  outer.pipe(inner)
  closeTogether(inner, outer)
  closeTogether(outer, inner)
}

/**
 * After a clean close, remaining bytes are still delivered. An error is passed on as a reset, so that programs notice.
 */
function closeTogether(socket: Socket, partner: Socket): void {
  socket.on('error', () => {})
  socket.on('close', (broken) => {
    if (broken) resetConnection(partner)
    else partner.destroySoon()
  })
}

/** Only TCP has a reset; for a Unix socket Node would throw. */
function resetConnection(socket: Socket): void {
  if (socket.remoteFamily === undefined) socket.destroy()
  else socket.resetAndDestroy()
}

/** Reopens the descriptors on /dev/null: otherwise a connection could get their numbers, and prints would go there. */
function releaseOutput(): void {
  for (const descriptor of [STDOUT, STDERR]) {
    closeSync(descriptor)
    openSync('/dev/null', 'w')
  }
}
