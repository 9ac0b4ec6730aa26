/**
 * Parses the values of `switchyard deploy kubernetes`. Every value is checked against the grammar of the place in which
 * it ends up, so that none changes the meaning of the document around it.
 */
import { InvalidArgumentError } from '@commander-js/extra-typings'
import { parseHostUrl } from '../../worker/host-url.ts'

const NAME_CHARS_MAX = 253
const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
/** A registry with or without a port, the path, and a tag, a digest or both. */
const IMAGE =
  /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?$/
const IMAGE_CHARS_MAX = 512

export function parseNamespace(text: string): string {
  if (LABEL.test(text)) return text
  throw new InvalidArgumentError('It must be a name of Kubernetes: a-z, 0-9 and -, at most 63 characters.')
}

/** The name of a Secret or a storage class. */
export function parseObjectName(text: string): string {
  if (text.length <= NAME_CHARS_MAX && text.split('.').every((part) => LABEL.test(part))) return text
  throw new InvalidArgumentError('It must be the name of an object of Kubernetes: a-z, 0-9, - and dots.')
}

export function parseImage(text: string): string {
  if (text.length <= IMAGE_CHARS_MAX && IMAGE.test(text)) return text
  throw new InvalidArgumentError('It must be an image, like registry.example/switchyard-worker:1.0.')
}

/** Whether the address may be unencrypted is asked when all options are known. */
export function parseHostAddress(text: string): string {
  const parsed = /^[\x21-\x7e]+$/.test(text) ? parseHostUrl(text, true) : undefined
  if (parsed === undefined || !parsed.ok)
    throw new InvalidArgumentError('It must be the address of a host, like https://host.example:4401.')
  if (parsed.value.loopback)
    throw new InvalidArgumentError('It must be an address that pods reach; loopback is the pod itself.')
  return new URL(text).href.replace(/\/+$/, '')
}
