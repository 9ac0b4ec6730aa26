/**
 * `readTarget` checks the fields of a provisioning request. Each value is safe afterwards as an argument, in a line of
 * text and in the command that a person repeats.
 */
import type { ProvisionRequest } from '../../protocol/provision.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import { normalizeWorkerName } from '../fleet/naming.ts'
import type { RemoteTarget } from '../remote-ports.ts'
import { no, type Result, yes } from '../result.ts'

export interface ProvisionTarget extends RemoteTarget {
  readonly name: string
  readonly concurrency: number
}

const SSH_PORT = 22
const CONCURRENCY = 2

const HOST_NAME = /^(?=.{1,253}$)[a-z\d]([a-z\d_-]*[a-z\d])?(\.[a-z\d]([a-z\d_-]*[a-z\d])?)*\.?$/i
const IPV6 = /^(?=.*:)[\da-f:]+(:\d{1,3}(\.\d{1,3}){3})?(%[\w.-]+)?$/i
const USER = /^[\w][\w.@+-]*\$?$/
const FINGERPRINT = /^(SHA256:)?[A-Za-z0-9+/]{43}=?$/
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

export function readTarget(request: ProvisionRequest): Result<ProvisionTarget> {
  const host = request.host.replace(/^\[(.*)\]$/, '$1')
  const { user, port = SSH_PORT, concurrency = CONCURRENCY, identityFile, hostKeySha256 } = request
  if (!HOST_NAME.test(host) && !IPV6.test(host))
    return no('invalid', '/host: must be a host name or an address, such as forge or 192.0.2.7')
  if (!USER.test(user))
    return no('invalid', '/user: must be the name of a user, of letters, digits and . _ - @ +')
  if (identityFile !== undefined && (!/^(\/|~\/)/.test(identityFile) || CONTROL.test(identityFile)))
    return no('invalid', '/identityFile: must be an absolute path, or one that begins with ~/')
  if (hostKeySha256 !== undefined && !FINGERPRINT.test(hostKeySha256))
    return no('invalid', '/hostKeySha256: must be a fingerprint as ssh-keygen -l prints it: SHA256:…')
  if (request.name !== undefined && CONTROL.test(request.name))
    return no('invalid', '/name: must have no control characters')
  const name = normalizeWorkerName(request.name ?? host)
  if (name === '') return no('invalid', '/name: must have a visible character')
  return yes({
    host,
    user,
    port,
    name,
    concurrency,
    ...(identityFile === undefined ? {} : { identityFile }),
    ...(hostKeySha256 === undefined
      ? {}
      : { hostKeySha256: `SHA256:${hostKeySha256.replace(/^SHA256:|=$/g, '')}` }),
  })
}

/** Names a provisioning: two of the same machine and user never run at once. */
export const targetId = ({ user, host, port }: RemoteTarget): string =>
  `${user}@${host.includes(':') ? `[${host}]` : host}${port === SSH_PORT ? '' : `:${port}`}`

/** The command that provisions the target again, with a fingerprint that a person has compared. */
export function provisionCommand(
  target: RemoteTarget & Partial<ProvisionTarget>,
  fingerprint: string,
): string {
  const { user, host, port, identityFile, name, concurrency } = target
  const options = [
    ...(port === SSH_PORT ? [] : [`--port ${port}`]),
    ...(identityFile === undefined ? [] : [`--identity-file ${quoteWord(identityFile)}`]),
    ...(name === undefined || name === host ? [] : [`--name ${quoteWord(name)}`]),
    ...(concurrency === undefined || concurrency === CONCURRENCY ? [] : [`--concurrency ${concurrency}`]),
  ]
  const words = [quoteWord(`${user}@${host}`), ...options, `--host-key-sha256 ${fingerprint}`]
  return `switchyard workers provision ${words.join(' ')}`
}
