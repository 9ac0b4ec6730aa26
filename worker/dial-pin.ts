/**
 * `DialPin` recognises the host by the SHA-256 fingerprint of its certificate or of the certificate's public key.
 *
 * A pinned worker needs no authority: it accepts this host alone, whatever its name is and whoever signed the
 * certificate. The worker keeps the key that it has found behind the fingerprint, so a renewed certificate with the same
 * key is accepted too.
 */
import { createHash, type X509Certificate } from 'node:crypto'
import type { TLSSocket } from 'node:tls'
import type { buildConnector } from 'undici'
import { formatFingerprint } from '../core/fleet/fingerprint.ts'
import { no, type Result, yes } from '../core/result.ts'

export interface DialPin {
  /** 64 hexadecimal digits in lower case. */
  readonly fingerprint: string
  /** The fingerprint of the key that an earlier connection has found behind `fingerprint`. */
  readonly key?: string
  /** Called with the fingerprint of the key when a connection was accepted. */
  readonly onAccepted?: (key: string) => void
}

/** Returns the fingerprint of the key when the certificate is the pinned host's. */
export function checkPin(
  { fingerprint, key: knownKey }: DialPin,
  certificate: X509Certificate,
): Result<string> {
  const own = sha256(certificate.raw)
  const key = sha256(certificate.publicKey.export({ type: 'spki', format: 'der' }))
  if ([own, key].includes(fingerprint) || key === knownKey) return yes(key)
  return no(
    'forbidden',
    `the certificate of the host is not the pinned one, but ${formatFingerprint(own)}; if the host has a new one, start with the new --fingerprint, as printed there by switchyard workers pair`,
  )
}

/** Connects by TLS to the pinned host only. The check comes before the first byte of a request. */
export function pinnedConnector(
  pin: DialPin,
  connect: buildConnector.connector,
  onPinned: () => void,
): buildConnector.connector {
  return (options, callback) =>
    connect(options, (...[error, socket]) => {
      if (error !== null) return callback(error, null)
      const certificate = (socket as Partial<TLSSocket>).getPeerX509Certificate?.()
      const checked =
        certificate === undefined
          ? no('forbidden', '--fingerprint needs an encrypted connection to the host')
          : checkPin(pin, certificate)
      if (!checked.ok) {
        socket.destroy()
        return callback(new Error(checked.refusal.message), null)
      }
      onPinned()
      pin.onAccepted?.(checked.value)
      return callback(null, socket)
    })
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
