/**
 * Creates a certificate authority and a certificate for one host name, new for each test run. The authority does not
 * serve itself, because strict clients refuse a server certificate that is also an authority.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Certificate {
  /** The authority's certificate, which clients must trust. */
  readonly authority: string
  readonly cert: string
  readonly key: string
}

const DAYS = '2'
const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

export function makeCertificate(folder: string, host: string): Certificate {
  const at = (name: string) => join(folder, name)
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const authority = ['-subj', '/CN=authority of a test', '-keyout', at('ca.key'), '-out', at('ca.pem')]
  openssl('req', '-x509', ...KEY, '-days', DAYS, ...authority)
  openssl('req', ...KEY, '-subj', `/CN=${host}`, '-keyout', at('key.pem'), '-out', at('request.pem'))
  writeFileSync(at('extensions'), `subjectAltName=DNS:${host}\nbasicConstraints=CA:FALSE\n`)
  const signed = [
    '-CA',
    at('ca.pem'),
    '-CAkey',
    at('ca.key'),
    '-CAcreateserial',
    '-extfile',
    at('extensions'),
  ]
  openssl('x509', '-req', '-in', at('request.pem'), ...signed, '-days', DAYS, '-out', at('cert.pem'))
  const text = (name: string) => readFileSync(at(name), 'utf8')
  return { authority: text('ca.pem'), cert: text('cert.pem'), key: text('key.pem') }
}
