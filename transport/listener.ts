/**
 * Opens ports, exclusively: uWebSockets.js would otherwise share a port with other processes.
 *
 * The library's parser answers some requests itself and closes the connection: 505 when the first line is not HTTP/1.1
 * (or arrives in two chunks), 400 without Host or with both a length and a transfer encoding. Requests without headers
 * or with control characters in them count as unfinished and are closed after ten seconds.
 * A refused listen returns `false`, and passing `false` back to the library ends the process.
 */
import uWS, { type TemplatedApp, type us_listen_socket } from 'uWebSockets.js'
import { X509Certificate } from 'node:crypto'
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
  /** Accepts no new connections; open ones stay. */
  stop(): void
}

/** Creates an app without routes. With TLS it checks first that the files are a certificate and its key. */
export function createApp(tls?: TlsFiles): Result<TemplatedApp> {
  hideLibraryHeader()
  if (tls === undefined) return yes(uWS.App())
  const fault = tlsError(tls)
  if (fault !== undefined) return no('invalid', fault)
  return yes(uWS.SSLApp({ cert_file_name: tls.certFile, key_file_name: tls.keyFile }))
}

/**
 * Binds exactly this address, exclusively. Port 0 picks a free port.
 *
 * @param portSettings names what sets the port, for the message about a port that is taken
 */
export function listen(app: TemplatedApp, { host, port }: Address, portSettings: string): Result<Listening> {
  let socket: us_listen_socket | false = false
  const bare = host.replace(/^\[(.*)\]$/, '$1')
  listenExclusively(app, bare, port, (got) => {
    socket = got
  })
  return toListening(socket, { host, port }, portSettings)
}

/** `LIBUS_LISTEN_EXCLUSIVE_PORT`: the library declares it in an enum that does not exist at run time. */
const EXCLUSIVE_PORT = 1

/** The library accepts host, port and options together; its types declare only pairs of them. */
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

function toListening(
  socket: us_listen_socket | false,
  { host, port }: Address,
  portSettings: string,
): Result<Listening> {
  if (socket === false) {
    const why = 'another program listens there, or this machine has no such address'
    return no(
      'conflict',
      `cannot listen on ${host}:${port}: ${why}; stop it, or choose another port with ${portSettings}`,
    )
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

/** SHA-256 of the certificate; undefined when the file holds none, which opening the listener reports. */
export function certificateFingerprint({ certFile }: TlsFiles): string | undefined {
  try {
    return new X509Certificate(readFileSync(certFile)).fingerprint256
  } catch {
    return undefined
  }
}

/** Removes the header in which the library names itself. */
function hideLibraryHeader(): void {
  const configure: unknown = Reflect.get(uWS, '_cfg')
  if (typeof configure === 'function') configure('silent')
}
