/** Opens ports with a listener, and says in words why that is not possible. */
import { X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { no, type Result, yes } from '../core/result.ts'
import type { FindTlsFault, TlsFiles } from '../core/settings/listeners.ts'
import type { HttpListener, ListenerApp, OpenPort } from './listener-port.ts'

export interface Address {
  readonly host: string
  readonly port: number
}

/** Creates an app without routes. With TLS it checks first that the files are a certificate and its key. */
export function createApp(listener: HttpListener, tls?: TlsFiles): Result<ListenerApp> {
  const fault = tls === undefined ? undefined : findTlsFault(tls)
  return fault === undefined ? yes(listener.createApp(tls)) : no('invalid', `fleet.tls: ${fault}`)
}

/**
 * Binds exactly this address, exclusively. Port 0 picks a free port.
 *
 * @param portSettings names what sets the port, for the message about a port that is taken
 */
export async function listen(
  app: ListenerApp,
  { host, port }: Address,
  portSettings: string,
): Promise<Result<OpenPort>> {
  const open = await app.listen(host.replace(/^\[(.*)\]$/, '$1'), port)
  if (open !== undefined) return yes(open)
  const why = 'another program listens there, or this machine has no such address'
  return no(
    'conflict',
    `cannot listen on ${host}:${port}: ${why}; stop it, or choose another port with ${portSettings}`,
  )
}

export const findTlsFault: FindTlsFault = ({ certFile, keyFile }) => {
  try {
    createSecureContext({ cert: readPlainFile(certFile), key: readPlainFile(keyFile) })
    return undefined
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return `${certFile} and ${keyFile} are not a certificate and its key: ${why}; name two PEM files that the host can read`
  }
}

/** A pipe or a device could hold up the whole host, because the call waits for its end. */
function readPlainFile(path: string): Buffer {
  if (!statSync(path).isFile()) throw new Error(`${path} is not a plain file`)
  return readFileSync(path)
}

/** SHA-256 of the certificate; undefined when the file holds none, which opening the listener reports. */
export function certificateFingerprint({ certFile }: TlsFiles): string | undefined {
  try {
    return new X509Certificate(readFileSync(certFile)).fingerprint256
  } catch {
    return undefined
  }
}
