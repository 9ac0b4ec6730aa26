/**
 * The one place that opens ports.
 *
 * The listener library shares a port with anybody who asks unless told not to, and its own functions trust whatever
 * they are given: a refused listen answers `false`, and asking `false` for its port ends the process.
 *
 * Its parser answers some requests before anybody here is asked, with a page of its own and a closed connection:
 * 505 for what is not HTTP/1.1 from the first line on (and for a first line that arrives in two pieces), 400 for a
 * request whose headers lack Host, or that gives both a length and a transfer encoding. A request without any header,
 * or with a control character in one, it takes for unfinished, and hangs up after ten seconds without a word.
 */

import uWS, { type TemplatedApp, type us_listen_socket } from 'uWebSockets.js'
import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { no, type Result, yes } from '../core/result.ts'

export interface Address {
  readonly host: string
  readonly port: number
}

export interface TlsFiles {
  readonly certFile: string
  readonly keyFile: string
}

export interface Listening {
  readonly port: number
  /** Takes no new connections; those that are open stay. */
  stop(): void
}

/** An app that serves nothing yet. With TLS, only once the files have proved to be a certificate and its key. */
export function createApp(tls?: TlsFiles): Result<TemplatedApp> {
  hideLibraryHeader()
  if (tls === undefined) return yes(uWS.App())
  const fault = tlsError(tls)
  if (fault !== undefined) return no('invalid', fault)
  return yes(uWS.SSLApp({ cert_file_name: tls.certFile, key_file_name: tls.keyFile }))
}

/** Binds exactly this address, alone. Port 0 picks a free one. */
export function listen(app: TemplatedApp, { host, port }: Address): Result<Listening> {
  let socket: us_listen_socket | false = false
  const bare = host.replace(/^\[(.*)\]$/, '$1')
  listenExclusively(app, bare, port, (got) => {
    socket = got
  })
  return toListening(socket, host, port)
}

/** `LIBUS_LISTEN_EXCLUSIVE_PORT`, which the library's types have in an enum that does not exist at run time. */
const EXCLUSIVE_PORT = 1

/** The library takes host, port and options together; its types know only pairs of them. */
interface ExclusiveListen {
  listen(host: string, port: number, options: number, done: (got: us_listen_socket | false) => void): unknown
}

function listenExclusively(
  app: TemplatedApp,
  host: string,
  port: number,
  done: (got: us_listen_socket | false) => void,
): void {
  const widened: ExclusiveListen = app as TemplatedApp & ExclusiveListen
  widened.listen(host, port, EXCLUSIVE_PORT, done)
}

function toListening(socket: us_listen_socket | false, host: string, port: number): Result<Listening> {
  if (socket === false) {
    const why = 'another program listens there, or this machine has no such address'
    return no('conflict', `cannot listen on ${host}:${port}: ${why}; stop it, or configure another port`)
  }
  let open: us_listen_socket | undefined = socket
  return yes({
    port: uWS.us_socket_local_port(socket),
    stop: () => {
      if (open !== undefined) uWS.us_listen_socket_close(open)
      open = undefined
    },
  })
}

function tlsError({ certFile, keyFile }: TlsFiles): string | undefined {
  try {
    createSecureContext({ cert: readFileSync(certFile), key: readFileSync(keyFile) })
    return undefined
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return `fleet.tls: ${certFile} and ${keyFile} are not a certificate and its key: ${why}`
  }
}

/** The library names itself in a header of every reply otherwise. */
function hideLibraryHeader(): void {
  const configure: unknown = Reflect.get(uWS, '_cfg')
  if (typeof configure === 'function') configure('silent')
}
